//! Errors of the configuration name place and remedy.

use gather::settings::Settings;

const GOOD: &str = r#"policy = { name = "sicc" }
[pool]
hashing = "ketama"
copies = 2
[front]
listen = "127.0.0.1:11211"
[[rack]]
name = "r1"
[[server]]
name = "s1"
address = "10.0.0.1:11211"
hub = "10.0.0.1:11311"
rack = "r1"
[[server]]
name = "s2"
address = "10.0.0.2:11211"
hub = "10.0.0.2:11311"
rack = "r1"
"#;

#[test]
fn a_server_is_hashed_by_what_clients_hash() {
    let labels = |text: &str| Settings::read("g.toml", text).unwrap().labels;
    assert_eq!(labels(GOOD), ["10.0.0.1", "10.0.0.2"]);
    let other = GOOD.replace("10.0.0.1:11211", "10.0.0.1:11212");
    assert_eq!(labels(&other), ["10.0.0.1:11212", "10.0.0.2"]);
    let rendezvous = GOOD.replace("ketama", "rendezvous");
    assert_eq!(labels(&rendezvous), ["10.0.0.1:11211", "10.0.0.2:11211"]);
    let named = GOOD.replacen("rack = \"r1\"\n", "rack = \"r1\"\nlabel = \"cache1\"\n", 1);
    assert_eq!(labels(&named), ["cache1", "10.0.0.2"]);
}

#[test]
fn errors_name_place_and_remedy() {
    Settings::read("g.toml", GOOD).unwrap();
    for (from, to, wanted) in [
        ("\"sicc\"", "\"fifo\"", "g.toml:1:10: policy: fifo gathers nothing; use one-all, sw"),
        ("copies = 2", "copies = 3", "g.toml:4:10: pool.copies: 3 copies need as many servers"),
        (
            "rack = \"r1\"\n[[server]]",
            "rack = \"r2\"\n[[server]]",
            "g.toml:13:8: server[0].rack: there is no rack \"r2\"; add",
        ),
        (
            "hub = \"10.0.0.1:11311\"\n",
            "",
            "server[0]: has no hub, which sicc may choose; add hub = \"10.0.0.1:11311\"",
        ),
        ("\"10.0.0.2:11211\"", "\"10.0.0.1:11211\"", "the same is given at g.toml:11:11 already"),
        (
            "\"10.0.0.2:11211\"",
            "\"cache\"",
            "g.toml:16:11: server[1].address: is no address with a port; write",
        ),
        (
            "[[rack]]",
            "memory = \"2 MB\"\nitem = \"4 MB\"\n[[rack]]",
            "front: memory is less than one item; raise",
        ),
        (
            "[[rack]]",
            "share = \"500 kB\"\n[[rack]]",
            "front: share is less than one item; raise share or lower item",
        ),
        ("[[rack]]", "speed = 1\n[[rack]]", "front.speed: unknown key"),
    ] {
        let text = GOOD.replacen(from, to, 1);
        let said = Settings::read("g.toml", &text).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}\n{wanted}");
    }
}
