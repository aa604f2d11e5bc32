//! `pytorch_model.bin`: an archive with a pickled list of tensors.

use std::path::Path;

use treasure::models::{Source, weights::Weights};

use super::{Choices, Seen, slip};

fn string(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn integer(number: u64, choices: &mut Choices<'_>) -> Vec<u8> {
    match choices.below(4) {
        0 if number < 1 << 8 => vec![b'K', number as u8],
        1 if number < 1 << 16 => [b"M", &(number as u16).to_le_bytes()[..]].concat(),
        2 => [b"J", &(number as u32).to_le_bytes()[..]].concat(),
        _ => [b"\x8a\x08", &number.to_le_bytes()[..]].concat(),
    }
}

/// What `torch.save` writes for a tensor, one opcode a piece.
fn tensor(key: &str, choices: &mut Choices<'_>) -> Vec<Vec<u8>> {
    const CLASSES: &[&str] = &[
        "FloatStorage",
        "FloatStorage",
        "HalfStorage",
        "BFloat16Storage",
        "DoubleStorage",
        "LongStorage",
        "IntStorage",
        "ShortStorage",
        "CharStorage",
        "ByteStorage",
        "BoolStorage",
        "QuantStorage",
    ];
    let shape: Vec<u64> = (0..choices.below(4)).map(|_| choices.small(4)).collect();
    let mut strides: Vec<u64> = shape.iter().map(|_| 1).collect();
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(shape[at]);
    }
    if choices.chance(40) {
        strides.reverse();
    }
    let numbers = |numbers: &[u64], choices: &mut Choices<'_>| {
        let mut pieces = vec![b"(".to_vec()];
        pieces.extend(numbers.iter().map(|number| integer(*number, choices)));
        match numbers.len() {
            // A short tuple has an opcode of its own.
            1..=3 if choices.chance(128) => {
                pieces.remove(0);
                pieces.push(vec![0x84 + numbers.len() as u8]);
            }
            _ => pieces.push(b"t".to_vec()),
        }
        pieces
    };
    let mut pieces = vec![b"ctorch._utils\n_rebuild_tensor_v2\n".to_vec(), b"(".to_vec()];
    pieces.extend([b"(".to_vec(), string("storage")]);
    pieces.push(format!("ctorch\n{}\n", choices.pick(CLASSES)).into_bytes());
    pieces.extend([string(key), string("cpu"), integer(9, choices), b"t".to_vec(), b"Q".to_vec()]);
    pieces.push(integer(choices.small(3), choices));
    pieces.extend(numbers(&shape, choices));
    pieces.extend(numbers(&strides, choices));
    pieces.extend(
        [&b"\x89"[..], b"ccollections\nOrderedDict\n", b")", b"R", b"t", b"R"].map(Vec::from),
    );
    if choices.chance(40) {
        pieces.insert(0, b"ctorch._utils\n_rebuild_parameter\n".to_vec());
        pieces.extend([&b"\x89"[..], b"N", b"\x87", b"R"].map(Vec::from));
    }
    pieces
}

fn pickle(choices: &mut Choices<'_>) -> Vec<u8> {
    const OPCODES: &[&[u8]] = &[
        b"}",
        b"]",
        b")",
        b"(",
        b"a",
        b"e",
        b"s",
        b"u",
        b"d",
        b"b",
        b"Q",
        b"R",
        b"\x81",
        b"t",
        b"\x85",
        b"\x86",
        b"\x87",
        b"N",
        b"\x88",
        b"q\x07",
        b"h\x07",
        b"r\x07\0\0\0",
        b"j\x07\0\0\0",
        b"G\0\0\0\0\0\0\0\0",
        b"cos\nsystem\n",
        b"ctorch._tensor\n_rebuild_from_type_v2\n",
        b"X\xff\xff\xff\xff",
        b"X\x01\0\0\0\xff",
        b"J\xff\xff\xff\xff",
        b"\x8a\x09abcdefghi",
        b"\x8a\x01\xff",
        b".",
        b"\x94",
        b"K",
    ];
    let ordered = choices.chance(128);
    let mut pieces: Vec<Vec<u8>> = match ordered {
        true => [&b"ccollections\nOrderedDict\n"[..], b")", b"R", b"q\x01"].map(Vec::from).into(),
        false => vec![b"}".to_vec()],
    };
    let at_once = choices.chance(128);
    if at_once {
        pieces.push(b"(".to_vec());
    }
    for key in ["0", "1", "7"].iter().take(1 + choices.below(3)) {
        pieces.push(string(&format!("weight{key}")));
        pieces.extend(tensor(key, choices));
        if !at_once {
            pieces.push(b"s".to_vec());
        }
    }
    if at_once {
        pieces.push(b"u".to_vec());
    }
    // The attributes of a state dict: numbers, lists and dictionaries that are no tensors.
    const ATTRIBUTES: &[&[&[u8]]] = &[
        &[b"}", b"X\x01\0\0\0v", b"]", b"(", b"K\x01", b"N", b"e", b"s", b"b"],
        &[b"(", b"X\x01\0\0\0v", b"K\x01", b"d", b"b"],
        &[b"]", b"N", b"a", b"b"],
        &[b"cx\ny\n", b")", b"\x81", b"(", b"N", b"e", b"b"],
        &[b"cx\ny\n", b")", b"R", b"(", b"X\x01\0\0\0v", b"N", b"u", b"b"],
        &[b"ctorch._tensor\n_rebuild_from_type_v2\n", b")", b"R", b"b"],
        &[b"}", b"r\x09\0\0\0", b"b", b"j\x09\0\0\0", b"b"],
        &[b"K\x01", b"N", b"a", b"b"],
        &[b"ctorch._utils\n_rebuild_parameter\n", b"N", b"\x85", b"R", b"b"],
    ];
    if choices.chance(100) {
        pieces.extend(choices.pick(ATTRIBUTES).iter().map(|piece| piece.to_vec()));
    }
    slip(&mut pieces, OPCODES, choices);
    [b"\x80\x02", &pieces.concat()[..], b"."].concat()
}

fn checksum(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

/// An archive of stored entries.
fn archive(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut central) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let mut fields = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        fields.extend(checksum(data).to_le_bytes());
        fields.extend((data.len() as u32).to_le_bytes().repeat(2));
        fields.extend([name.len() as u8, 0, 0, 0]);
        let at = (bytes.len() as u32).to_le_bytes();
        central
            .extend([b"PK\x01\x02\x14\x00", &fields[..], &[0; 10], &at, name.as_bytes()].concat());
        bytes.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), data].concat());
    }
    let (count, start) = (entries.len() as u8, bytes.len() as u32);
    let length = (central.len() as u32).to_le_bytes();
    let end =
        [b"PK\x05\x06\0\0\0\0", &[count, 0, count, 0][..], &length, &start.to_le_bytes(), &[0, 0]];
    [bytes, central, end.concat()].concat()
}

pub fn torch(folder: &Path, choices: &mut Choices<'_>) -> Seen {
    let mut entries = vec![("a/data.pkl".to_owned(), pickle(choices))];
    for key in 0..2 {
        entries.push((format!("a/data/{key}"), vec![0; choices.small(300).min(9000) as usize]));
    }
    match choices.below(12) {
        0 => entries.push(("a/byteorder".into(), b"big".to_vec())),
        1 => entries.push(("b/data.pkl".into(), pickle(choices))),
        2 => drop(entries.remove(choices.below(3))),
        3 => entries.push(("a/byteorder".into(), b"little\n".to_vec())),
        _ => {}
    }
    let mut bytes = archive(&entries);
    if choices.chance(30) {
        // The directory of the archive is at its end.
        let at = bytes.len() - 1 - choices.below(bytes.len().min(250));
        bytes[at] = choices.byte();
    }
    let path = folder.join("pytorch_model.bin");
    std::fs::write(&path, &bytes).unwrap();
    match Weights::open(&Source::Directory(folder.into())) {
        Ok(weights) => {
            let kinds = weights.tensors().values().map(|info| info.stored.to_string());
            Seen::deep(format!("pickle of {}", kinds.collect::<Vec<_>>().join(" ")))
        }
        Err(error) => Seen::refused(error),
    }
}
