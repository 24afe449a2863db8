//! The configurations of all daemons: whatever the file, settings or one line of error that says
//! where.
#![no_main]
#![forbid(unsafe_code)]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    let folder = Path::new("");
    let controller = controller::settings::Settings::read("fuzz", text, folder);
    if let Ok(settings) = &controller {
        // Nobody is let in unseen.
        let open = [settings.listen.http, settings.listen.openflow].into_iter().flatten();
        assert!(
            text.contains("insecure")
                || settings.tls.is_some()
                || open.into_iter().all(|at| at.ip().is_loopback())
        );
        assert!(settings.bounds.connections > 0 && settings.bounds.request > 0);
    }
    let agent = agentd::settings::Settings::read("fuzz", text, folder);
    let gather = gather::settings::Settings::read("fuzz", text);
    if let Ok(settings) = &gather {
        // Policies see every server, and one front end.
        assert_eq!(settings.topology().hosts().count(), settings.servers.len() + 1);
    }
    for error in [controller.err(), agent.err(), gather.err()].into_iter().flatten() {
        let error = error.to_string();
        assert!(error.starts_with("fuzz:"), "{error}");
        assert!(error.len() < 2000 && error.lines().count() == 1, "{error}");
    }
});
