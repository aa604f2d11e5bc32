//! Stop texts: where an answer is cut, and how much of a growing text can be shown before that is known.

/// Where the first stop text begins.
pub(crate) fn cut(text: &str, stops: &[String]) -> Option<usize> {
    stops.iter().filter_map(|stop| text.find(stop.as_str())).min()
}

/// The bytes of a growing text that no stop text can take back.
pub(crate) fn safe(text: &str, stops: &[String]) -> usize {
    if let Some(at) = cut(text, stops) {
        return at;
    }
    let held = |stop: &String| {
        let starts = stop.char_indices().map(|(at, _)| at).skip(1);
        starts.filter(|&at| text.ends_with(&stop[..at])).max().unwrap_or(0)
    };
    text.len() - stops.iter().map(held).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_first_stop_and_never_shown_beyond_it() {
        let stops = ["\n\n".to_owned(), "end".to_owned()];
        assert_eq!(cut("a end b\n\nc", &stops), Some(2));
        assert_eq!(cut("a", &stops), None);
        assert_eq!(safe("a e", &stops), 2);
        assert_eq!(safe("a en", &stops), 2);
        assert_eq!(safe("a enx", &stops), 5);
        assert_eq!(safe("a\n", &stops), 1);
        assert_eq!(safe("a end b", &stops), 2);
        assert_eq!(safe("é", &["éa".to_owned()]), 0);
        assert_eq!(safe("é", &[]), 2);
    }
}
