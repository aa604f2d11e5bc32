//! Intervals and tests over prompts and seeds.
//!
//! Texts of one prompt are alike, so prompts are resampled first and their continuations inside them
//! (a cluster bootstrap), and tests flip the sign of a whole prompt's difference. Few prompts say too
//! little for that: below ten, intervals are Student's over prompts; below three, or where nothing could
//! be sure, none is given. All draws come from a key: the same rows give the same intervals.

use std::collections::BTreeMap;

use treasure::core::Key;

/// Bootstrap replicates.
const REPLICATES: usize = 2000;
/// Up to this many prompts every sign pattern is enumerated.
const EXACT_CLUSTERS: usize = 16;
/// Sign patterns drawn beyond that.
const PATTERNS: usize = 20_000;
/// The fewest prompts of which p can fall below 0.05: 2/2⁶.
pub const FEWEST_FOR_P: usize = 6;
/// The fewest prompts an interval is given for: of two, Student's spans more than a judge can say.
const FEWEST: usize = 3;
/// The 97.5 % quantiles of Student's distribution with 2 to 8 degrees of freedom; with more prompts
/// intervals are bootstrapped.
const STUDENT: [f64; 7] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];

/// Numbers by (prompt, continuation).
pub type Values = [((usize, usize), f64)];

/// Numbers grouped by prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters(pub Vec<Vec<f64>>);

impl Clusters {
    /// Groups (prompt, number) pairs; prompts without numbers do not count.
    pub fn group(pairs: impl IntoIterator<Item = (usize, f64)>) -> Self {
        Self(by_prompt(pairs).into_values().collect())
    }
}

fn by_prompt(pairs: impl IntoIterator<Item = (usize, f64)>) -> BTreeMap<usize, Vec<f64>> {
    let mut groups = BTreeMap::<usize, Vec<f64>>::new();
    pairs.into_iter().for_each(|(prompt, number)| groups.entry(prompt).or_default().push(number));
    groups
}

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The ends of the interval; none where the prompts are too few to give one.
    pub interval: Option<(f64, f64)>,
    /// How many numbers.
    pub n: usize,
    /// Of how many prompts.
    pub prompts: usize,
}

impl Estimate {
    /// The same on another scale; `of` must not fall.
    #[must_use]
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        let interval = self.interval.map(|(low, high)| (of(low), of(high)));
        Self { mean: of(self.mean), interval, ..self }
    }
}

/// A comparison of two sets of texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The mean difference with its interval.
    pub difference: Estimate,
    /// The two-sided p-value of a sign-flip test over prompts: with k of them not below 2/2ᵏ.
    pub p: f64,
    /// The difference as a share of what was attainable, where that is known.
    pub share: Option<Estimate>,
}

/// The mean of some numbers.
pub fn mean(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.into_iter().fold((0.0, 0usize), |(s, c), x| (s + x, c + 1));
    (count > 0).then(|| sum / count as f64)
}

/// The q-quantile of sorted numbers, by linear interpolation between order statistics.
///
/// # Panics
/// If `sorted` is empty.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (place - low as f64) * (sorted[high] - sorted[low])
}

/// A number over another, each summed over prompts, with its 95 % interval. `part` gives a prompt's two
/// summands, as they are or with its continuations drawn anew by a key.
fn ratio(
    prompts: usize,
    n: usize,
    key: Key,
    part: impl Fn(usize, Option<Key>) -> (f64, f64),
) -> Option<Estimate> {
    let add = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
    let parts: Vec<(f64, f64)> = (0..prompts).map(|prompt| part(prompt, None)).collect();
    let (above, below) = parts.iter().copied().reduce(add)?;
    let mean = above / below;
    let interval = if let Some(student) = STUDENT.get(prompts.wrapping_sub(FEWEST)) {
        let rest = |&(a, b): &(f64, f64)| ((a - mean * b) / below).powi(2);
        let correction = prompts as f64 / (prompts - 1) as f64;
        let error = (correction * parts.iter().map(rest).sum::<f64>()).sqrt();
        // Numbers that are all equal say nothing of those that were not seen.
        (error > 1e-12 * (1.0 + mean.abs()))
            .then(|| (mean - student * error, mean + student * error))
    } else if prompts >= FEWEST + STUDENT.len() {
        let mut drawn: Vec<f64> = (0..REPLICATES)
            .map(|replicate| {
                let key = key.fold(replicate as u64);
                let drawn = (0..prompts).map(|draw| {
                    let key = key.fold(draw as u64);
                    part(key.below(prompts), Some(key))
                });
                let (above, below) = drawn.fold((0.0, 0.0), add);
                above / below
            })
            .collect();
        drawn.sort_by(f64::total_cmp);
        Some((quantile(&drawn, 0.025), quantile(&drawn, 0.975)))
    } else {
        None
    };
    Some(Estimate { mean, interval, n, prompts })
}

/// The sum of a group, as it is or drawn anew.
fn sum(group: &[f64], key: Option<Key>) -> f64 {
    match key {
        None => group.iter().sum(),
        Some(key) => {
            let drawn = (0..group.len()).map(|i| group[key.fold(i as u64).below(group.len())]);
            drawn.sum()
        }
    }
}

/// The mean of all numbers with its interval.
pub fn estimate(clusters: &Clusters, key: Key) -> Option<Estimate> {
    let groups = &clusters.0;
    let n = groups.iter().map(Vec::len).sum();
    ratio(groups.len(), n, key, |prompt, key| {
        (sum(&groups[prompt], key), groups[prompt].len() as f64)
    })
}

/// Compares two sets of numbers on the cells they share.
pub fn paired(a: &Values, b: &Values, key: Key) -> Option<Comparison> {
    let b: BTreeMap<_, _> = b.iter().copied().collect();
    let clusters =
        Clusters::group(a.iter().filter_map(|(cell, x)| b.get(cell).map(|y| (cell.0, x - y))));
    let difference = estimate(&clusters, key)?;
    Some(Comparison { difference, p: sign_flip(&clusters, key), share: None })
}

/// Compares numbers with all that others have on the same prompts, whichever continuation: for a
/// baseline with more texts than what is compared with it. With a `ceiling` that no number exceeds,
/// also the difference as a share of what was attainable.
pub fn against_pool(
    a: &Values,
    pool: &Values,
    ceiling: Option<f64>,
    key: Key,
) -> Option<Comparison> {
    let prompt = |&((prompt, _), x): &((usize, usize), f64)| (prompt, x);
    let mut pools = by_prompt(pool.iter().map(prompt));
    let groups: Vec<(Vec<f64>, Vec<f64>)> = by_prompt(a.iter().map(prompt))
        .into_iter()
        .filter_map(|(prompt, own)| Some((own, pools.remove(&prompt)?)))
        .collect();
    let n = groups.iter().map(|(own, _)| own.len()).sum();
    // Per prompt: the sum of what is compared, and the pool's mean as often.
    let sums = |at: usize, key: Option<Key>| {
        let (own, pool) = &groups[at];
        let pooled = sum(pool, key.map(|key| key.fold(u64::MAX))) / pool.len() as f64;
        (sum(own, key), own.len() as f64 * pooled, own.len() as f64)
    };
    let difference = ratio(groups.len(), n, key, |at, key| {
        let (own, pooled, count) = sums(at, key);
        (own - pooled, count)
    })?;
    let share = ceiling.and_then(|ceiling| {
        ratio(groups.len(), n, key, |at, key| {
            let (own, pooled, count) = sums(at, key);
            (own - pooled, ceiling * count - pooled)
        })
    });
    let clusters = (0..groups.len()).map(|at| {
        let (own, pooled, _) = sums(at, None);
        vec![own - pooled]
    });
    let p = sign_flip(&Clusters(clusters.collect()), key);
    let share = share.filter(|share| share.mean.is_finite()).map(|share| share.map(|x| x.min(1.0)));
    Some(Comparison { difference, p, share })
}

/// Two-sided p-value: how often a random sign for each prompt's sum is at least as far from 0.
pub fn sign_flip(clusters: &Clusters, key: Key) -> f64 {
    let sums: Vec<f64> = clusters.0.iter().map(|group| group.iter().sum()).collect();
    let observed = sums.iter().sum::<f64>().abs();
    // Rounding must not turn a tie into a miss.
    let reaches = |total: f64| total.abs() >= observed - 1e-12 * (1.0 + observed);
    if sums.len() <= EXACT_CLUSTERS {
        let patterns = 1u32 << sums.len();
        let hits = (0..patterns)
            .filter(|pattern| {
                let signed = sums.iter().enumerate();
                reaches(signed.map(|(i, s)| if pattern >> i & 1 == 0 { *s } else { -s }).sum())
            })
            .count();
        return hits as f64 / f64::from(patterns);
    }
    let hits = (0..PATTERNS)
        .filter(|&pattern| {
            let key = key.fold(pattern as u64);
            let signed = sums.iter().enumerate();
            reaches(
                signed.map(|(i, s)| if key.fold(i as u64).below(2) == 0 { *s } else { -s }).sum(),
            )
        })
        .count();
    (hits + 1) as f64 / (PATTERNS + 1) as f64
}

/// Holm's correction for many tests, in the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut highest = 0f64;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max(((p.len() - rank) as f64 * p[index]).min(1.0));
        adjusted[index] = highest;
    }
    adjusted
}
