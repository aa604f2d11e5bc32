//! Intervals and tests against numbers that can be worked out by hand.

use treasure::core::Key;
use treasure_eval::stats::{Clusters, against_pool, estimate, holm, paired, quantile, sign_flip};

#[test]
fn quantiles_interpolate_between_order_statistics() {
    let sorted = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(quantile(&sorted, 0.0), 1.0);
    assert_eq!(quantile(&sorted, 0.25), 1.75);
    assert_eq!(quantile(&sorted, 0.5), 2.5);
    assert_eq!(quantile(&sorted, 1.0), 4.0);
}

#[test]
fn sign_flips_of_three_prompts_are_enumerated() {
    // Sums 1, 2, 3: |total| reaches 6 for + + + and − − − only, 2 of 8 patterns.
    let clusters = Clusters(vec![vec![1.0], vec![2.0], vec![1.5, 1.5]]);
    assert_eq!(sign_flip(&clusters, Key::new(0)), 0.25);
    // Sums 1, −1, 0: every pattern reaches |0|.
    let clusters = Clusters(vec![vec![1.0], vec![-1.0], vec![0.0]]);
    assert_eq!(sign_flip(&clusters, Key::new(0)), 1.0);
    // Sums 1, −1, 2: totals ±2 (4 patterns: the first two cancel), ±4, ±0…: 6 of 8 reach 2.
    let clusters = Clusters(vec![vec![1.0], vec![-1.0], vec![2.0]]);
    assert_eq!(sign_flip(&clusters, Key::new(0)), 0.75);
}

#[test]
fn few_prompts_have_students_interval_over_prompts() {
    // Means 0, 1 and 2: mean 1, standard error 1/√3, two degrees of freedom.
    let three = (0..3).map(|i| vec![f64::from(i)]).collect();
    let three = estimate(&Clusters(three), Key::new(1)).unwrap();
    let (low, high) = three.interval.unwrap();
    assert!((low - (1.0 - 4.303 / 3f64.sqrt())).abs() < 1e-9, "{low}");
    assert!((high - (1.0 + 4.303 / 3f64.sqrt())).abs() < 1e-9, "{high}");
    // Five prompts of two texts: the error is that of the five means, 1 to 5: √(2.5/5).
    let five = (1..=5).map(|i| vec![f64::from(i) - 0.5, f64::from(i) + 0.5]).collect();
    let five = estimate(&Clusters(five), Key::new(1)).unwrap();
    let (low, high) = five.interval.unwrap();
    assert!((low - (3.0 - 2.776 * 0.5f64.sqrt())).abs() < 1e-9, "{low}");
    assert!((high - (3.0 + 2.776 * 0.5f64.sqrt())).abs() < 1e-9, "{high}");
    assert_eq!((five.n, five.prompts), (10, 5));
}

#[test]
fn one_or_two_prompts_or_few_equal_numbers_have_no_interval() {
    let one = estimate(&Clusters(vec![vec![1.0, 2.0]]), Key::new(1)).unwrap();
    assert_eq!((one.mean, one.interval), (1.5, None));
    let two = estimate(&Clusters(vec![vec![0.0], vec![1.0]]), Key::new(1)).unwrap();
    assert_eq!((two.mean, two.interval), (0.5, None));
    let equal = estimate(&Clusters(vec![vec![0.1]; 4]), Key::new(1)).unwrap();
    assert_eq!(equal.interval, None);
}

#[test]
fn the_bootstrap_of_many_prompts_has_the_width_of_the_normal_interval() {
    // 400 prompts with uniform numbers: standard error = sqrt(1/12/400) = 0.01443.
    let numbers = (0..400).map(|i| vec![Key::new(7).fold(i).uniform()]).collect();
    let (low, high) = estimate(&Clusters(numbers), Key::new(2)).unwrap().interval.unwrap();
    assert!((high - low - 2.0 * 1.96 * 0.01443).abs() < 0.006, "{low} {high}");
}

#[test]
fn alike_texts_of_one_prompt_widen_the_interval() {
    let alike = Clusters((0..10).map(|i| vec![f64::from(i % 2); 8]).collect());
    let spread = Clusters((0..80).map(|i| vec![f64::from(i % 2)]).collect());
    let width = |c: &Clusters| {
        let (low, high) = estimate(c, Key::new(3)).unwrap().interval.unwrap();
        high - low
    };
    assert!(width(&alike) > 2.0 * width(&spread));
}

#[test]
fn the_same_key_gives_the_same_interval_and_no_numbers_give_none() {
    let clusters = Clusters((0..12).map(|i| vec![f64::from(i), 2.0]).collect());
    assert_eq!(estimate(&clusters, Key::new(4)), estimate(&clusters, Key::new(4)));
    assert_eq!(estimate(&Clusters::default(), Key::new(4)), None);
}

#[test]
fn pairs_are_matched_by_prompt_and_continuation() {
    let a = [((0, 0), 3.0), ((0, 1), 5.0), ((1, 0), 1.0)];
    let b = [((0, 0), 1.0), ((1, 0), 0.0), ((2, 0), 9.0)];
    let comparison = paired(&a, &b, Key::new(5)).unwrap();
    assert_eq!(comparison.difference.mean, 1.5);
    assert_eq!((comparison.difference.n, comparison.difference.prompts), (2, 2));
}

#[test]
fn a_pool_counts_with_all_its_texts_and_gives_the_share_of_the_attainable() {
    // Twelve prompts: ours −1, −2 and the pool −4, −6, −8 on each; a thirteenth has no pool.
    let own: Vec<_> = (0..13).flat_map(|p| [((p, 0), -1.0), ((p, 1), -2.0)]).collect();
    let pool: Vec<_> =
        (0..12).flat_map(|p| [((p, 0), -4.0), ((p, 1), -6.0), ((p, 2), -8.0)]).collect();
    let found = against_pool(&own, &pool, Some(0.0), Key::new(6)).unwrap();
    assert_eq!((found.difference.mean, found.difference.n), (4.5, 24));
    let share = found.share.unwrap();
    assert_eq!(share.mean, 0.75);
    // All prompts are alike, so the interval is that of the continuations inside them.
    let (low, high) = share.interval.unwrap();
    assert!(low < 0.75 && 0.75 < high && high - low < 0.1, "{low} {high}");
    assert_eq!(found.p, 2.0 / 4096.0);
    assert_eq!(against_pool(&own, &pool, None, Key::new(6)).unwrap().share, None);
}

#[test]
fn holm_multiplies_the_smallest_most_and_stays_in_order() {
    let adjusted = holm(&[0.03, 0.01, 0.04]);
    assert!((adjusted[1] - 0.03).abs() < 1e-12);
    assert!((adjusted[0] - 0.06).abs() < 1e-12);
    assert!((adjusted[2] - 0.06).abs() < 1e-12);
}
