//! Formats that are regular, each as a subset of what its standard allows.

/// The regular expression of a format; `None` if it is not supported.
pub(super) fn format_regex(name: &str) -> Option<&'static str> {
    Some(match name {
        "date" => DATE,
        "time" => TIME,
        "date-time" => DATE_TIME,
        "uuid" => "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "ipv4" => {
            r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])){3}"
        }
        "email" => {
            r"[A-Za-z0-9_+-]{1,20}(?:\.[A-Za-z0-9_+-]{1,20}){0,2}@[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20})?(?:\.[A-Za-z]{2,10}){1,2}"
        }
        _ => return None,
    })
}

// February has 28 days here: whether it has one more is a property of the year.
macro_rules! date {
    () => {
        "[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    };
}
// No leap second: it is one at certain moments only.
macro_rules! time {
    () => {
        r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
    };
}

const DATE: &str = date!();
const TIME: &str = time!();
const DATE_TIME: &str = concat!(date!(), "T", time!());
