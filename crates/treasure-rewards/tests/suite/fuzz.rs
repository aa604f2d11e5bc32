//! Specifications made by the grammar: each is read back as what it was made from, and no mutation of one breaks
//! the reader.

use proptest::prelude::*;
use treasure_rewards::{
    Error, Spec,
    spec::{Judge, Kind, Leaf, Node, Rule, ValueKind},
};

/// A specification before it is written: what the reader must find.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(Leaf, String),
    Sum(Vec<Tree>),
    Weighted(f64, Box<Tree>),
    Function(&'static str, Vec<Tree>),
    Threshold(&'static str, Box<Tree>, f64),
}

impl Tree {
    /// It in words. Sums and weights stand in parentheses unless they stand alone.
    fn written(&self, alone: bool) -> String {
        let all = |parts: &[Self], between: &str| {
            parts.iter().map(|part| part.written(false)).collect::<Vec<_>>().join(between)
        };
        match self {
            Self::Leaf(_, written) => written.clone(),
            Self::Sum(parts) if alone => all(parts, " + "),
            Self::Sum(parts) => format!("({})", all(parts, " + ")),
            Self::Weighted(weight, part) if alone => format!("{weight}*{}", part.written(false)),
            Self::Weighted(weight, part) => format!("({weight}*{})", part.written(false)),
            Self::Function(name, parts) => format!("{name}({})", all(parts, ", ")),
            Self::Threshold(name, part, threshold) => {
                format!("{name}({}, {threshold})", part.written(true))
            }
        }
    }

    /// Whether a node is what this was written for.
    fn is(&self, node: &Node) -> bool {
        let all = |parts: &[Self], nodes: &[Node]| {
            parts.len() == nodes.len() && parts.iter().zip(nodes).all(|(part, node)| part.is(node))
        };
        match (self, &node.kind) {
            (Self::Leaf(leaf, _), Kind::Leaf(found)) => leaf == found,
            (Self::Sum(parts), Kind::Sum(nodes)) => all(parts, nodes),
            (Self::Weighted(weight, part), Kind::Weighted(found, node)) => {
                weight == found && part.is(node)
            }
            (Self::Function("min", parts), Kind::Min(nodes))
            | (Self::Function("product", parts), Kind::Product(nodes)) => all(parts, nodes),
            (Self::Threshold("atleast", part, threshold), Kind::AtLeast(node, found))
            | (Self::Threshold("atmost", part, threshold), Kind::AtMost(node, found))
            | (Self::Threshold("step", part, threshold), Kind::Step(node, found)) => {
                threshold == found && part.is(node)
            }
            _ => false,
        }
    }
}

/// Text of any kind, quoted.
fn quoted() -> impl Strategy<Value = (String, String)> {
    let text = prop_oneof![r"[a-z+ ,()#'*{}\[\]\\.é-]{0,10}[a-z]", "\\PC{0,8}[a-z]"];
    (text, prop::sample::select(vec!['\'', '"'])).prop_map(|(text, quote)| {
        let doubled = text.replace(quote, &format!("{quote}{quote}"));
        (text, format!("{quote}{doubled}{quote}"))
    })
}

/// A short name or `hf:`, perhaps with a prefix.
fn classifiers() -> impl Strategy<Value = (Leaf, String)> {
    let kinds = [
        ("", ValueKind::LogProb),
        ("prob:", ValueKind::Prob),
        ("accuracy:", ValueKind::Accuracy),
        ("raw:", ValueKind::Raw),
    ];
    let judge = (prop::sample::select(kinds.to_vec()), prop::sample::select(Judge::ALL.to_vec()));
    let judge = judge.prop_map(|((prefix, value), (name, judge))| {
        (Leaf::Judge(judge, value), format!("{prefix}{name}"))
    });
    let own = (prop::sample::select(kinds.to_vec()), quoted(), prop::option::of(quoted()));
    let own = own.prop_map(|((prefix, value), (model, written), label)| {
        let behind = label.iter().map(|(_, written)| format!("#{written}")).collect::<String>();
        let label = label.map(|(label, _)| label);
        (Leaf::Classifier { model, label, value }, format!("{prefix}hf:{written}{behind}"))
    });
    prop_oneof![judge, own]
}

fn rule<const N: usize>(name: &str, arguments: [&str; N]) -> Leaf {
    Leaf::Rule(Rule::new(name, arguments).expect("a rule"))
}

/// Rewards that lie within [0, 1].
fn rules() -> impl Strategy<Value = (Leaf, String)> {
    prop_oneof![
        quoted().prop_map(|(text, _)| {
            let pattern = regex::escape(&text);
            let written = format!("regex:'{}'", pattern.replace('\'', "''"));
            (rule("regex", [&pattern]), written)
        }),
        (quoted(), quoted()).prop_map(|((a, written_a), (b, written_b))| {
            (rule("contains", [&a, &b]), format!("contains:{written_a},{written_b}"))
        }),
        quoted().prop_map(|(a, written)| (rule("avoids", [&a]), format!("avoids:{written}"))),
        (0usize..99, 0usize..99).prop_map(|(low, more)| {
            let range = format!("{low}..{}", low + more);
            (rule("length", [&range]), format!("length:{range}"))
        }),
        (1usize..9).prop_map(|n| { (rule("distinct", [&n.to_string()]), format!("distinct:{n}")) }),
    ]
}

fn leaves() -> impl Strategy<Value = (Leaf, String)> {
    prop_oneof![
        3 => rules(),
        3 => classifiers(),
        1 => Just((Leaf::Perplexity, "perplexity".to_string())),
        1 => quoted().prop_map(|(model, written)| (Leaf::Scorer { model }, format!("ppl:{written}"))),
        1 => quoted().prop_map(|(model, written)| (Leaf::Nelbo { model }, format!("nelbo:{written}"))),
    ]
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = leaves().prop_map(|(leaf, written)| Tree::Leaf(leaf, written));
    let unit = rules().prop_map(|(leaf, written)| Tree::Leaf(leaf, written)).boxed();
    leaf.prop_recursive(4, 20, 3, move |inner| {
        let several = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            several.clone().prop_map(Tree::Sum),
            several.prop_map(|parts| Tree::Function("min", parts)),
            prop::collection::vec(unit.clone(), 2..4)
                .prop_map(|parts| Tree::Function("product", parts)),
            (-9.0f64..9.0, inner.clone())
                .prop_map(|(weight, part)| Tree::Weighted(weight, Box::new(part))),
            (prop::sample::select(vec!["atleast", "atmost", "step"]), inner, -9.0f64..9.0)
                .prop_map(|(name, part, threshold)| Tree::Threshold(
                    name,
                    Box::new(part),
                    threshold
                )),
        ]
    })
}

/// Pieces that matter to the reader.
const PIECES: [&str; 20] = [
    "'", "\"", "(", ")", ",", " + ", "+", "#", ":", "*", "=", "\\", "..", "min(", "regex:",
    "prob:", "http://", "é", "\u{0}", "-1*",
];

/// What a fault says can be shown, and points into the specification.
fn readable(text: &str) {
    match text.parse::<Spec>() {
        Ok(spec) => {
            let again: Spec = spec.to_string().parse().expect("what is printed can be read");
            assert_eq!(again, spec);
            assert!(spec.range().low <= spec.range().high);
        }
        Err(error) => {
            let Error::Spec { at, .. } = error else { panic!("{text:?}: {error}") };
            assert!(text.is_char_boundary(at), "{text:?}: {at}");
            assert_eq!(error.to_string().lines().last().map(str::trim), Some("^"), "{text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_the_grammar_makes_is_read_as_it_was_made(tree in trees(), space in " {0,2}") {
        let text = format!("{space}{}{space}", tree.written(true));
        let spec: Spec = text.parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
        prop_assert!(tree.is(&spec.root), "{:?}", spec.root);
        let again: Spec = spec.to_string().parse().expect("what is printed can be read");
        prop_assert_eq!(&again, &spec);
        prop_assert_eq!(again.to_string(), spec.to_string());
    }

    #[test]
    fn a_mutation_is_read_or_refused_at_a_place(
        tree in trees(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(PIECES.to_vec()), 0usize..6), 1..4),
    ) {
        let mut text: Vec<char> = tree.written(true).chars().collect();
        for (place, piece, drop) in cuts {
            let at = place.index(text.len() + 1);
            let end = (at + drop).min(text.len());
            text.splice(at..end, piece.chars());
        }
        readable(&text.into_iter().collect::<String>());
    }
}
