//! The likelihood bound against −log p(x).

use treasure_core::{Key, MaskedSeq, NelboForm, NoiseSchedule, nelbo};
use treasure_testkit::{JointTable, exact};

use crate::common::EXACT;

#[test]
fn with_an_exact_denoiser_the_enumerated_bound_is_minus_log_p_for_every_x() {
    let table = JointTable::random(3, 4, Key::new(1));
    for x in exact::sequences(3, 4) {
        assert!((exact::nelbo(&table, &x) + table.prob(&x).ln()).abs() < 1e-9);
    }
}

#[test]
fn the_continuous_estimates_equal_minus_log_p_within_their_standard_error() {
    let table = JointTable::random(3, 3, Key::new(2));
    let context = MaskedSeq::empty(3);
    for (i, x) in exact::sequences(3, 3).enumerate() {
        for form in [NelboForm::Continuous, NelboForm::MaskCount] {
            let key = Key::new(3).fold(i as u64);
            let bound = nelbo(&table, &EXACT, &x, &context, form, 3000, key).unwrap();
            let expected = -table.prob(&x).ln();
            let off = (bound.nats - expected).abs();
            assert!(off < 4.5 * bound.standard_error, "{form:?} {x:?}: {bound:?}, not {expected}");
            assert!(bound.standard_error > 0.0 && bound.standard_error < 0.2, "{bound:?}");
            assert_eq!(bound.tokens, 3);
        }
    }
}

#[test]
fn the_bound_holds_for_a_schedule_that_does_not_end_at_zero() {
    // A process that began with some tokens revealed would come out 0.3 nats too low.
    let table = JointTable::random(3, 3, Key::new(2));
    let context = MaskedSeq::empty(3);
    for schedule in [NoiseSchedule::LogLinear { eps: 0.1 }, NoiseSchedule::Cosine { eps: 0.2 }] {
        let mut mean = [0.0; 2];
        for (i, x) in exact::sequences(3, 3).enumerate() {
            let key = Key::new(3).fold(i as u64);
            let form = NelboForm::Continuous;
            let bound = nelbo(&table, &schedule, &x, &context, form, 3000, key).unwrap();
            let expected = -table.prob(&x).ln();
            let off = (bound.nats - expected).abs();
            assert!(
                off < 4.5 * bound.standard_error,
                "{schedule} {x:?}: {bound:?}, not {expected}"
            );
            mean[0] += table.prob(&x) * bound.nats;
            mean[1] += table.prob(&x) * expected;
            // T steps from masks alone: each bounds −log p of its own sampler, on average from above.
            let few = exact::nelbo_discrete(&table, &x, &schedule, 2);
            let many = exact::nelbo_discrete(&table, &x, &schedule, 4000);
            assert!((many - expected).abs() < 5e-3, "{schedule} {x:?}: {many}, not {expected}");
            assert!(few.is_finite());
        }
        assert!((mean[0] - mean[1]).abs() < 0.02, "{schedule}: {mean:?}");
    }
}

#[test]
fn the_discrete_estimate_equals_the_enumerated_discrete_bound() {
    let table = JointTable::random(2, 3, Key::new(4));
    // The last begins with a fifth of the tokens revealed; the sampler, and so the bound, with masks alone.
    let open = NoiseSchedule::LogLinear { eps: 0.2 };
    for schedule in [EXACT, NoiseSchedule::Linear { min: 0.2, max: 3.0 }, open] {
        for steps in [1, 2, 8] {
            let x = [0, 1, 1];
            let expected = exact::nelbo_discrete(&table, &x, &schedule, steps);
            let form = NelboForm::Discrete { steps };
            let context = MaskedSeq::empty(3);
            let bound = nelbo(&table, &schedule, &x, &context, form, 20_000, Key::new(5)).unwrap();
            let off = (bound.nats - expected).abs();
            assert!(
                off < 4.5 * bound.standard_error + 1e-9,
                "{schedule} T = {steps}: {bound:?}, not {expected}"
            );
        }
    }
}

#[test]
fn more_discrete_steps_bound_the_entropy_more_tightly() {
    // A bound for the sampler of T steps: on average over the joint it falls towards the entropy.
    let table = JointTable::random(2, 3, Key::new(4));
    let mean = |steps| -> f64 {
        exact::sequences(2, 3)
            .map(|x| table.prob(&x) * exact::nelbo_discrete(&table, &x, &EXACT, steps))
            .sum()
    };
    let entropy: f64 = table.probs().iter().map(|p| -p * p.ln()).sum();
    let bounds = [1, 2, 8, 64].map(mean);
    assert!(bounds.windows(2).all(|pair| pair[1] < pair[0]), "{bounds:?}");
    assert!(bounds[3] >= entropy && bounds[3] - entropy < 0.02, "{bounds:?} against {entropy}");
}

#[test]
fn a_context_conditions_the_bound() {
    let table = JointTable::random(3, 3, Key::new(6));
    let x = [2, 0, 1];
    let context = MaskedSeq::from_slots([Some(2), None, None]);
    let given: f64 = exact::sequences(3, 3).filter(|y| y[0] == 2).map(|y| table.prob(&y)).sum();
    let expected = -(table.prob(&x) / given).ln();
    let bound =
        nelbo(&table, &EXACT, &x, &context, NelboForm::MaskCount, 4000, Key::new(7)).unwrap();
    assert!(
        (bound.nats - expected).abs() < 4.5 * bound.standard_error,
        "{bound:?}, not {expected}"
    );
    assert_eq!(bound.tokens, 2);
}

#[test]
fn a_bound_refuses_what_does_not_fit() {
    let table = JointTable::random(2, 2, Key::new(8));
    let say = |x: &[u32], context: MaskedSeq, samples| {
        let form = NelboForm::Continuous;
        nelbo(&table, &EXACT, x, &context, form, samples, Key::new(1)).unwrap_err().to_string()
    };
    assert_eq!(
        say(&[0], MaskedSeq::empty(2), 1),
        "sequence: expected 2 tokens, as in the context, got 1"
    );
    assert_eq!(say(&[0, 1], MaskedSeq::empty(2), 0), "samples: expected at least 1, got 0");
    assert!(say(&[0, 9], MaskedSeq::empty(2), 1).contains("token ids below 3, got 9"));
    assert!(say(&[0, 1], MaskedSeq::from_slots([Some(1), None]), 1).starts_with("context:"));
    assert!(
        say(&[0, 1], MaskedSeq::from_slots([Some(0), Some(1)]), 1).contains("at least one mask")
    );
}
