//! The page: one HTML document that loads nothing from elsewhere. Without a film it asks the controller that
//! it is served beside; with one it shows what has happened. `page/web` has its sources, `make page` puts
//! them together in `page/page.html`.
#![forbid(unsafe_code)]

pub mod film;
pub mod serve;

use film::Film;

/// The page without a film.
pub const LIVE: &str = include_str!("../page.html");

/// Where a film stands in the page.
const PLACE: &str = "<script id=\"data\" type=\"application/json\">null</script>";

/// What the page's scripts, styles and requests may be (Content Security Policy), as it says itself.
pub fn policy() -> &'static str {
    const BEGINS: &str = "http-equiv=\"Content-Security-Policy\" content=\"";
    let rest = LIVE.split_once(BEGINS).map_or("", |(_, rest)| rest);
    rest.split_once('"').map_or("default-src 'none'", |(policy, _)| policy)
}

/// The page with a film within it: a file that any browser opens.
///
/// # Errors
/// A number that JSON can't express.
pub fn with_film(film: &Film) -> serde_json::Result<String> {
    // No text can end the element, or begin another: JSON may write any character by its number.
    let json = serde_json::to_string(film)?.replace('<', "\\u003c");
    Ok(LIVE.replacen(PLACE, &PLACE.replace("null", &json), 1))
}

/// Whether a file that begins so is the page, with or without a film, of this version or another.
pub fn is_page(begins: &str) -> bool {
    begins.starts_with("<!doctype html>\n") && begins.contains("<title>Watermaster</title>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::film::{About, Recording};

    #[test]
    fn nothing_loads_from_elsewhere() {
        assert!(policy().starts_with("default-src 'none'; script-src 'sha256-"), "{}", policy());
        for directive in policy().split("; ") {
            let mut words = directive.split(' ');
            let name = words.next();
            for source in words {
                let is_own = match name {
                    Some("connect-src") => source == "'self'",
                    Some("img-src") => source == "data:",
                    _ => source == "'none'" || source.starts_with("'sha256-"),
                };
                assert!(is_own, "{directive}");
            }
        }
    }

    #[test]
    fn the_page_is_known_by_its_beginning() {
        assert!(is_page(LIVE) && LIVE.find("</title>").is_some_and(|at| at < 4000));
        assert!(!is_page("<!doctype html>\n<title>Mine</title>"));
    }

    #[test]
    fn what_others_say_ends_no_element() {
        let title = "</script><img src=x onerror=alert(1)><!--";
        let about = About { title: title.to_owned(), ..About::default() };
        let film = Film::Recording(Recording { about, ..Recording::default() });
        let page = with_film(&film).unwrap_or_default();
        assert!(page.contains("\\u003c/script>\\u003cimg"), "the title is there, as JSON");
        assert!(!page.contains("<img src=x"));
        assert_eq!(page.matches("</script>").count(), LIVE.matches("</script>").count());
    }
}
