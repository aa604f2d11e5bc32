//! Numbers for people: thousands separators, no more digits than matter. Programs read them too, so
//! that minus is the plain one.

/// A count with thousands separators: `1,733`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A reward: three decimals, more where it is tiny.
pub fn reward(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    match value.abs() {
        size if size != 0.0 && size < 0.0005 => format!("{value:.1e}"),
        _ => format!("{value:.3}"),
    }
}

/// A probability: as many digits as show how far it is from 0 or 1, `0.98`, `0.004`, `0.9998`.
pub fn probability(p: f64) -> String {
    let distance = p.min(1.0 - p).max(1e-12);
    let digits = if distance >= 0.01 { 2 } else { (-distance.log10()).ceil().min(9.0) as usize };
    format!("{p:.digits$}")
}

/// A duration in seconds: `0.42 s`, `12.4 s`, `3 min 05 s`, `2 h 10 min`.
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 119.95 => format!("{s:.1} s"),
        s if s < 7200.0 => {
            let whole = s.round() as u64;
            format!("{} min {:02} s", whole / 60, whole % 60)
        }
        s => {
            let minutes = (s / 60.0).round() as u64;
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        }
    }
}

/// A size in bytes: `812 kB`, `15.3 MB`.
pub fn bytes(n: u64) -> String {
    match n {
        n if n < 1_000 => format!("{n} B"),
        n if n < 1_000_000 => format!("{:.0} kB", n as f64 / 1e3),
        n if n < 1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        n => format!("{:.2} GB", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_thousands_separators() {
        for (n, text) in [(0, "0"), (999, "999"), (1_733, "1,733"), (39_060_123, "39,060,123")] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn rewards_have_a_plain_minus_sign() {
        for (value, text) in [
            (-0.018, "-0.018"),
            (0.0, "0.000"),
            (2.5, "2.500"),
            (-0.00012, "-1.2e-4"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(reward(value), text);
        }
    }

    #[test]
    fn probabilities_keep_the_digits_that_matter() {
        for (p, text) in
            [(0.982, "0.98"), (0.0042, "0.004"), (0.9998, "0.9998"), (1.0, "1.000000000")]
        {
            assert_eq!(probability(p), text);
        }
    }

    #[test]
    fn durations_change_unit_as_they_grow() {
        for (s, text) in
            [(0.418, "0.42 s"), (12.44, "12.4 s"), (185.0, "3 min 05 s"), (7800.0, "2 h 10 min")]
        {
            assert_eq!(seconds(s), text);
        }
    }
}
