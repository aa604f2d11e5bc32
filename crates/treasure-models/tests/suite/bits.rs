//! The golden checkpoints give the very bits they gave before: no change of structure may move a number.
//!
//! Bits are a fact of an instruction set (and of the platform's `cos` and `exp`), so they are recorded for the
//! sets at hand when this was written, on Linux; others are held to the tolerances of the golden folders.

use std::collections::BTreeMap;

use treasure_models::{
    Classifier, MaskedLm, Scorer,
    exec::{Cpu, Isa},
};

use crate::support::*;

/// FNV-1a over the bits of numbers.
struct Hash(u64);

impl Hash {
    fn of(numbers: impl IntoIterator<Item = u64>) -> u64 {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        for bits in numbers {
            bits.to_le_bytes().into_iter().for_each(|byte| hash.add(byte));
        }
        hash.0
    }

    fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

fn bits(numbers: &[f32]) -> impl Iterator<Item = u64> {
    numbers.iter().map(|x| u64::from(x.to_bits()))
}

/// One hash per family: every input of its golden folder, all logits, and likelihoods where it has them.
fn hashes(cpu: &Cpu) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for family in DENOISERS {
        let model =
            MaskedLm::load_on(cpu, &resolver(), &spec(&golden(family)), &options(family)).unwrap();
        let io = Io::read(family);
        let mut all = Vec::new();
        for prefix in ["", "alt_"] {
            let name = |part: &str| format!("{prefix}{part}");
            let ids = io.ids(&name("input_ids"));
            let sigma = name("sigma");
            let sigma = if io.has(&sigma) { io.numbers(&sigma) } else { vec![0.0; ids.len()] };
            for (ids, sigma) in ids.iter().zip(sigma) {
                let rows: Vec<usize> = (0..ids.len()).collect();
                all.extend(bits(&model.raw_logits(ids, &rows, sigma).unwrap()));
            }
        }
        found.insert(family.to_owned(), format!("{:016x}", Hash::of(all)));
    }
    for family in SCORERS {
        let model =
            Scorer::load_on(cpu, &resolver(), &spec(&golden(family)), &options(family)).unwrap();
        let ids = Io::read(family).ids("input_ids");
        let views: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        let nll = model.nll(&views).unwrap().concat();
        let mut all: Vec<u64> = nll.iter().map(|x| x.to_bits()).collect();
        ids.iter().for_each(|ids| all.extend(bits(&model.raw_logits(ids).unwrap())));
        found.insert(family.to_owned(), format!("{:016x}", Hash::of(all)));
    }
    for family in CLASSIFIERS {
        let model = Classifier::load_on(cpu, &resolver(), &spec(&golden(family)), &options(family))
            .unwrap();
        let io = Io::read(family);
        let rows: Vec<Vec<u32>> =
            (0..3).map(|row| io.ids(&format!("row{row}_input_ids")).remove(0)).collect();
        let views: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let logits = model.logits_ids(&views).unwrap().concat();
        found.insert(family.to_owned(), format!("{:016x}", Hash::of(bits(&logits))));
    }
    found
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn logits_have_the_recorded_bits() {
    let text = std::fs::read_to_string(golden("bits.json")).unwrap();
    let recorded: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(&text).unwrap();
    for isa in Isa::available() {
        if let Some(recorded) = recorded.get(isa.name()) {
            assert_eq!(&hashes(&Cpu::new().with_isa(isa)), recorded, "{isa:?}");
        }
    }
}
