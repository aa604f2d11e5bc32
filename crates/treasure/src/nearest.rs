//! The known name that someone probably meant.

/// The nearest of some names, if one is near enough to be worth a guess.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    let wanted = plain(name);
    let best = known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&wanted, &plain(known)), known))
        .min_by_key(|&(distance, _)| distance)?;
    (best.0 <= 1 + wanted.chars().count() / 4).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_fingers_finds_its_name_and_nonsense_finds_none() {
        let known = ["beam_width", "tree_width", "reward", "seed"];
        assert_eq!(nearest("beam-widht", known), Some("beam_width"));
        assert_eq!(nearest("rewrad", known), Some("reward"));
        assert_eq!(nearest("zzz", known), None);
    }
}
