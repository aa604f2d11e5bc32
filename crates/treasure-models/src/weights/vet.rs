//! A dry run over pickle opcodes that bounds what candle's reader would do with them.
//!
//! Guarantee: what passes has bounded nesting, bounded total copies, strings that lie in the file, and
//! tensor constructors with as many arguments as the reader takes out of them. Nothing is executed and
//! no object is built; each stack slot is described by its nesting, its size and its kind.
//! Opcodes: <https://github.com/python/cpython/blob/main/Lib/pickletools.py>.

use std::collections::HashMap;

/// `torch.save` nests a handful of levels.
const MAX_DEPTH: u32 = 32;
/// Objects built or copied in all; a state dict of 10 000 tensors copies well under a million.
const MAX_OBJECTS: u64 = 20_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Mark,
    RebuildTensor,
    RebuildParameter,
    RebuildSubclass,
    /// A tuple: its length, and whether its first item is a storage reference of five or more parts.
    Tuple {
        len: usize,
        storage_first: bool,
    },
    /// A storage reference: whether it has the parts of one.
    Storage {
        complete: bool,
    },
    Other,
}

#[derive(Clone, Copy)]
struct Slot {
    depth: u32,
    size: u64,
    kind: Kind,
}

const PLAIN: Slot = Slot { depth: 1, size: 1, kind: Kind::Other };

struct Run<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Slot>,
    memo: HashMap<u32, Slot>,
    spent: u64,
}

/// Checks a whole pickle; the message says what is wrong.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let mut run = Run { bytes, at: 0, stack: Vec::new(), memo: HashMap::new(), spent: 0 };
    while !run.step()? {}
    Ok(())
}

impl Run<'_> {
    fn take(&mut self, n: usize) -> Result<&[u8], String> {
        let end = self.at.checked_add(n).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("ends inside an opcode at byte {}", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, n: usize) -> Result<u32, String> {
        let mut value = [0; 4];
        value[..n].copy_from_slice(self.take(n)?);
        Ok(u32::from_le_bytes(value))
    }

    fn line(&mut self) -> Result<&[u8], String> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n').ok_or("ends inside a name")?;
        let line = self.take(len + 1)?;
        Ok(&line[..len])
    }

    fn push(&mut self, slot: Slot) -> Result<(), String> {
        self.spent = self.spent.saturating_add(slot.size);
        if self.spent > MAX_OBJECTS {
            return Err(format!("builds more than {MAX_OBJECTS} objects"));
        }
        if slot.depth > MAX_DEPTH {
            return Err(format!("nests deeper than {MAX_DEPTH} levels"));
        }
        self.stack.push(slot);
        Ok(())
    }

    fn pop(&mut self) -> Result<Slot, String> {
        self.stack.pop().ok_or_else(|| "takes from an empty stack".to_owned())
    }

    fn since_mark(&mut self) -> Result<Vec<Slot>, String> {
        let mark = self.stack.iter().rposition(|slot| slot.kind == Kind::Mark);
        let mark = mark.ok_or("looks for a mark that is not there")?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    fn tuple(&mut self, items: &[Slot]) -> Result<(), String> {
        let first = items.first().map(|slot| slot.kind);
        let storage_first = first == Some(Kind::Storage { complete: true });
        self.push(wrap(items, Kind::Tuple { len: items.len(), storage_first }))
    }

    /// Adds items to the container on top of the stack.
    fn grow(&mut self, items: &[Slot]) -> Result<(), String> {
        let top = self.pop()?;
        let mut all = items.to_vec();
        all.push(Slot { depth: top.depth.saturating_sub(1), ..top });
        let grown = wrap(&all, top.kind);
        // Growing moves the items, it does not copy them.
        self.spent = self.spent.saturating_sub(grown.size);
        self.push(grown)
    }

    fn recall(&mut self, id: u32) -> Result<(), String> {
        let slot = *self.memo.get(&id).ok_or_else(|| format!("recalls unknown object {id}"))?;
        self.push(slot)
    }

    fn remember(&mut self, id: u32) -> Result<(), String> {
        let slot = *self.stack.last().ok_or("memoises nothing")?;
        self.spent = self.spent.saturating_add(slot.size);
        self.memo.insert(id, slot);
        Ok(())
    }

    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, callable) = (self.pop()?, self.pop()?);
        let complete = match (callable.kind, arguments.kind) {
            (Kind::RebuildTensor, Kind::Tuple { len, storage_first }) => len >= 4 && storage_first,
            (Kind::RebuildParameter, Kind::Tuple { len, .. }) => len >= 1,
            (Kind::RebuildTensor | Kind::RebuildParameter | Kind::RebuildSubclass, _) => false,
            _ => true,
        };
        if !complete {
            return Err(
                "a tensor's constructor has other arguments than torch.save writes".to_owned()
            );
        }
        self.push(wrap(&[callable, arguments], Kind::Other))
    }

    /// One opcode; `true` at the end.
    fn step(&mut self) -> Result<bool, String> {
        let op = self.take(1)?[0];
        match op {
            b'.' => return Ok(true),
            0x80 => {
                self.take(1)?;
            }
            b'c' => {
                let module = self.line()?.to_vec();
                let kind = match (&module[..], self.line()?) {
                    (b"torch._utils", b"_rebuild_tensor_v2") => Kind::RebuildTensor,
                    (b"torch._utils", b"_rebuild_parameter") => Kind::RebuildParameter,
                    (b"torch._tensor", b"_rebuild_from_type_v2") => Kind::RebuildSubclass,
                    _ => Kind::Other,
                };
                self.push(Slot { kind, ..PLAIN })?;
            }
            b'K' | b'M' | b'G' => {
                self.take(match op {
                    b'K' => 1,
                    b'M' => 2,
                    _ => 8,
                })?;
                self.push(PLAIN)?;
            }
            b'J' => {
                if self.take(4)?[3] & 0x80 != 0 {
                    return Err("holds a negative number".to_owned());
                }
                self.push(PLAIN)?;
            }
            b'X' => {
                let len = self.number(4)? as usize;
                self.take(len)?;
                self.push(PLAIN)?;
            }
            0x8a => {
                let len = self.number(1)? as usize;
                if len > 6 {
                    return Err(format!("holds an integer of {len} bytes"));
                }
                self.take(len)?;
                self.push(PLAIN)?;
            }
            b'Q' => {
                let id = self.pop()?;
                let complete = matches!(id.kind, Kind::Tuple { len, .. } if len >= 5);
                self.push(wrap(&[id], Kind::Storage { complete }))?;
            }
            b't' => {
                let items = self.since_mark()?;
                self.tuple(&items)?;
            }
            0x85..=0x87 => {
                let n = usize::from(op - 0x84);
                let from = self.stack.len().checked_sub(n).ok_or("takes from an empty stack")?;
                let items = self.stack.split_off(from);
                self.tuple(&items)?;
            }
            b')' => self.tuple(&[])?,
            0x88 | 0x89 | b'N' | b'}' | b']' => self.push(PLAIN)?,
            b'(' => self.push(Slot { kind: Kind::Mark, ..PLAIN })?,
            b'a' => {
                let item = self.pop()?;
                self.grow(&[item])?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.grow(&[key, value])?;
            }
            b'e' | b'u' => {
                let items = self.since_mark()?;
                self.grow(&items)?;
            }
            b'd' => {
                let items = self.since_mark()?;
                self.push(wrap(&items, Kind::Other))?;
            }
            b'b' => {
                let (state, object) = (self.pop()?, self.pop()?);
                self.push(wrap(&[object, state], Kind::Other))?;
            }
            b'R' | 0x81 => self.reduce()?,
            b'h' => {
                let id = self.number(1)?;
                self.recall(id)?;
            }
            b'j' => {
                let id = self.number(4)?;
                self.recall(id)?;
            }
            b'q' => {
                let id = self.number(1)?;
                self.remember(id)?;
            }
            b'r' => {
                let id = self.number(4)?;
                self.remember(id)?;
            }
            other => return Err(format!("opcode {other:#04x} at byte {}", self.at - 1)),
        }
        Ok(false)
    }
}

fn wrap(items: &[Slot], kind: Kind) -> Slot {
    let depth = items.iter().map(|slot| slot.depth).max().unwrap_or(0) + 1;
    let size = items.iter().fold(1, |sum: u64, slot| sum.saturating_add(slot.size));
    Slot { depth, size, kind }
}
