//! Names are safe as parts of files' names.

use watermaster_model::is_name;

#[test]
fn the_domain_name_of_a_host_is_a_name_and_a_path_is_none() {
    for name in ["h1", "h1.dc1.example.org", "A-b_c", &"x".repeat(64)] {
        assert!(is_name(name), "{name}");
    }
    for text in ["", ".", "..", ".h1", "a/b", "../a", "a b", "h\u{e4}", "a\n", &"x".repeat(65)] {
        assert!(!is_name(text), "{text}");
    }
}
