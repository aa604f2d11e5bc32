//! A reader of pickles that runs nothing: opcodes build descriptions, and only tensors are described in full.
//!
//! Guarantee: time and memory are linear in the number of bytes, however hostile. Every opcode adds at most
//! one object to a flat list, containers hold the numbers of their items, nothing of unbounded size is copied,
//! and nothing recurses. A call of anything but the constructors `torch.save` writes gives an object without meaning.
//! Opcodes: <https://github.com/python/cpython/blob/main/Lib/pickletools.py>.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

/// Objects built or waiting; a state dict of 10 000 tensors has about 300 000.
const MAX_OBJECTS: usize = 4_000_000;
/// No tensor has more dimensions.
const MAX_DIMENSIONS: usize = 8;

/// A storage that `torch.save` put beside the pickle.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Storage {
    /// The class, such as `torch.FloatStorage`.
    pub class: Rc<str>,
    /// The file name under `data/`.
    pub key: Rc<str>,
}

/// A tensor: a view of a storage, counted in numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub storage: Storage,
    pub offset: u64,
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
}

/// Reads a pickle and lists the tensors of the dictionary it holds by name; other entries are left out. The
/// message of an error says what is wrong.
pub(super) fn tensors(bytes: &[u8]) -> Result<BTreeMap<Rc<str>, Tensor>, String> {
    let mut machine =
        Machine { bytes, at: 0, objects: vec![], stack: vec![], memo: HashMap::new() };
    while machine.step()? {}
    let root = machine.pop()?;
    let Object::Dict(entries) = machine.object(root) else {
        return Err("expected a dictionary of tensors, got another object".to_owned());
    };
    let mut listed = BTreeMap::new();
    for &(name, value) in entries {
        if let (Object::Text(name), Object::Tensor(tensor)) =
            (machine.object(name), machine.object(value))
        {
            listed.insert(Rc::clone(name), Tensor::clone(tensor));
        }
    }
    Ok(listed)
}

/// The number of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Id(u32);

#[derive(Clone, Debug)]
enum Object {
    Integer(i64),
    Text(Rc<str>),
    /// A class or function, as `module.name`; never called.
    Global(Rc<str>),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Storage(Box<Storage>),
    Tensor(Box<Tensor>),
    /// Whatever has no meaning for a list of tensors.
    Opaque,
}

/// What lies on the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Mark,
    Object(Id),
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    objects: Vec<Object>,
    stack: Vec<Slot>,
    memo: HashMap<u32, Id>,
}

impl<'a> Machine<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(n).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| format!("ends inside an opcode at byte {}", self.at))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A little-endian number of up to four bytes.
    fn number(&mut self, n: usize) -> Result<u32, String> {
        let mut value = [0; 4];
        value[..n].copy_from_slice(self.take(n)?);
        Ok(u32::from_le_bytes(value))
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n').ok_or("ends inside a name")?;
        let line = self.take(len + 1)?;
        text(&line[..len])
    }

    fn object(&self, Id(id): Id) -> &Object {
        &self.objects[id as usize]
    }

    fn push(&mut self, object: Object) -> Result<(), String> {
        let id = Id(self.objects.len() as u32);
        self.objects.push(object);
        self.place(Slot::Object(id))
    }

    fn place(&mut self, slot: Slot) -> Result<(), String> {
        self.stack.push(slot);
        if self.objects.len().max(self.stack.len()) > MAX_OBJECTS {
            return Err(format!("builds more than {MAX_OBJECTS} objects"));
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, String> {
        match self.stack.pop() {
            Some(Slot::Object(id)) => Ok(id),
            Some(Slot::Mark) => Err("takes a mark for an object".to_owned()),
            None => Err("takes from an empty stack".to_owned()),
        }
    }

    fn top(&self) -> Result<Id, String> {
        match self.stack.last() {
            Some(Slot::Object(id)) => Ok(*id),
            _ => Err("looks at an empty stack".to_owned()),
        }
    }

    /// What was put on the stack since the last mark.
    fn since_mark(&mut self) -> Result<Vec<Id>, String> {
        let mut items = Vec::new();
        loop {
            match self.stack.pop() {
                Some(Slot::Object(id)) => items.push(id),
                Some(Slot::Mark) => break,
                None => return Err("looks for a mark that is not there".to_owned()),
            }
        }
        items.reverse();
        Ok(items)
    }

    /// The last `n` objects as a tuple.
    fn tuple(&mut self, n: usize) -> Result<(), String> {
        let mut items = (0..n).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
        items.reverse();
        self.push(Object::Tuple(items))
    }

    /// Adds items to the list on top of the stack; an object without meaning takes anything.
    fn extend(&mut self, items: Vec<Id>) -> Result<(), String> {
        let Id(top) = self.top()?;
        match &mut self.objects[top as usize] {
            Object::List(list) => list.extend(items),
            Object::Opaque => {}
            _ => return Err("adds an item to what is no list".to_owned()),
        }
        Ok(())
    }

    /// Adds keys and values in turn to the dictionary on top of the stack.
    fn set(&mut self, items: &[Id]) -> Result<(), String> {
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err("sets a key without a value".to_owned());
        };
        let Id(top) = self.top()?;
        match &mut self.objects[top as usize] {
            Object::Dict(entries) => {
                entries.extend(pairs.iter().map(|[key, value]| (*key, *value)))
            }
            Object::Opaque => {}
            _ => return Err("sets a key of what is no dictionary".to_owned()),
        }
        Ok(())
    }

    fn recall(&mut self, id: u32) -> Result<(), String> {
        let object = *self.memo.get(&id).ok_or_else(|| format!("recalls unknown object {id}"))?;
        self.place(Slot::Object(object))
    }

    fn remember(&mut self, id: u32) -> Result<(), String> {
        let object = self.top()?;
        self.memo.insert(id, object);
        Ok(())
    }

    fn integers(&self, id: Id) -> Option<Vec<u64>> {
        let Object::Tuple(items) = self.object(id) else { return None };
        if items.len() > MAX_DIMENSIONS {
            return None;
        }
        let integer = |id: &Id| match self.object(*id) {
            Object::Integer(n) => u64::try_from(*n).ok(),
            _ => None,
        };
        items.iter().map(integer).collect()
    }

    /// A reference to data beside the pickle: `("storage", class, key, location, numbers)`.
    fn storage(&self, id: Id) -> Option<Storage> {
        let Object::Tuple(parts) = self.object(id) else { return None };
        let [kind, class, key, _, _] = parts[..] else { return None };
        match (self.object(kind), self.object(class), self.object(key)) {
            (Object::Text(kind), Object::Global(class), Object::Text(key))
                if &**kind == "storage" =>
            {
                Some(Storage { class: Rc::clone(class), key: Rc::clone(key) })
            }
            _ => None,
        }
    }

    /// `_rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks, …)`.
    fn tensor(&self, arguments: &[Id]) -> Option<Tensor> {
        let [storage, offset, shape, strides, ..] = arguments[..] else { return None };
        let Object::Storage(storage) = self.object(storage) else { return None };
        let Object::Integer(offset) = self.object(offset) else { return None };
        Some(Tensor {
            storage: Storage::clone(storage),
            offset: u64::try_from(*offset).ok()?,
            shape: self.integers(shape)?,
            strides: self.integers(strides)?,
        })
    }

    /// What a call would have made.
    fn called(&self, callable: Id, arguments: Id) -> Result<Object, String> {
        let Object::Tuple(arguments) = self.object(arguments) else {
            return Err("calls with what is no tuple".to_owned());
        };
        let Object::Global(name) = self.object(callable) else { return Ok(Object::Opaque) };
        let strange =
            || "a tensor's constructor has other arguments than torch.save writes".to_owned();
        match &**name {
            "collections.OrderedDict" if arguments.is_empty() => Ok(Object::Dict(Vec::new())),
            "torch._utils._rebuild_tensor_v2" => {
                let tensor = self.tensor(arguments).ok_or_else(strange)?;
                Ok(Object::Tensor(Box::new(tensor)))
            }
            "torch._utils._rebuild_parameter" => match arguments.first().map(|&id| self.object(id))
            {
                Some(Object::Tensor(tensor)) => Ok(Object::Tensor(tensor.clone())),
                _ => Err(strange()),
            },
            "torch._tensor._rebuild_from_type_v2" => {
                Err("holds a tensor of a class of its own".to_owned())
            }
            _ => Ok(Object::Opaque),
        }
    }

    /// One opcode; `false` at the end.
    fn step(&mut self) -> Result<bool, String> {
        let op = self.take(1)?[0];
        match op {
            b'.' => return Ok(false),
            0x80 => drop(self.take(1)?),
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Object::Global(format!("{module}.{name}").into()))?;
            }
            b'K' => {
                let n = self.number(1)?;
                self.push(Object::Integer(n.into()))?;
            }
            b'M' => {
                let n = self.number(2)?;
                self.push(Object::Integer(n.into()))?;
            }
            b'J' => {
                let n = self.number(4)?;
                self.push(Object::Integer((n as i32).into()))?;
            }
            0x8a => {
                let len = self.number(1)? as usize;
                let bytes = self.take(len)?;
                self.push(long(bytes).map_or(Object::Opaque, Object::Integer))?;
            }
            b'X' => {
                let len = self.number(4)? as usize;
                let text = text(self.take(len)?)?;
                self.push(Object::Text(text.into()))?;
            }
            b'G' => {
                self.take(8)?;
                self.push(Object::Opaque)?;
            }
            0x88 | 0x89 | b'N' => self.push(Object::Opaque)?,
            b'}' => self.push(Object::Dict(Vec::new()))?,
            b']' => self.push(Object::List(Vec::new()))?,
            b')' => self.tuple(0)?,
            0x85..=0x87 => self.tuple(usize::from(op - 0x84))?,
            b't' => {
                let items = self.since_mark()?;
                self.push(Object::Tuple(items))?;
            }
            b'(' => self.place(Slot::Mark)?,
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])?;
            }
            b'e' => {
                let items = self.since_mark()?;
                self.extend(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set(&items)?;
            }
            b'd' => {
                let items = self.since_mark()?;
                self.push(Object::Dict(Vec::new()))?;
                self.set(&items)?;
            }
            // Attributes of an object (a state dict's `_metadata`) change no tensor.
            b'b' => {
                self.pop()?;
                self.top()?;
            }
            b'Q' => {
                let id = self.pop()?;
                let storage =
                    self.storage(id).ok_or("refers to data in another way than torch.save")?;
                self.push(Object::Storage(Box::new(storage)))?;
            }
            b'R' | 0x81 => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                let made = self.called(callable, arguments)?;
                self.push(made)?;
            }
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
        Ok(true)
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "holds a text that is not UTF-8".to_owned())
}

/// A little-endian two's-complement integer of up to eight bytes.
fn long(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last().is_some_and(|&byte| byte & 0x80 != 0);
    let mut all = if negative { [0xff; 8] } else { [0; 8] };
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `("storage", torch.FloatStorage, "0", "cpu", 12)` as a reference to data.
    const STORAGE: &[u8] =
        b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x0ctQ";

    fn pickle(parts: &[&[u8]]) -> Vec<u8> {
        [b"\x80\x02", &parts.concat()[..], b"."].concat()
    }

    /// A tensor with an offset, a shape and strides of two numbers each.
    fn rebuild(offset: u8, shape: [u8; 2], strides: [u8; 2]) -> Vec<u8> {
        let call = b"ctorch._utils\n_rebuild_tensor_v2\n(";
        let two = |[a, b]: [u8; 2]| [b'K', a, b'K', b, 0x86];
        [&call[..], STORAGE, &[b'K', offset], &two(shape), &two(strides), b"\x89N", b"tR"].concat()
    }

    #[test]
    fn a_state_dict_lists_its_tensors_and_nothing_else() {
        let tensor = rebuild(3, [2, 4], [4, 1]);
        let parameter =
            [&b"ctorch._utils\n_rebuild_parameter\n("[..], &tensor, b"\x88NtR"].concat();
        let bytes = pickle(&[
            b"ccollections\nOrderedDict\n)Rq\x00(",
            b"X\x01\0\0\0aq\x01",
            &tensor,
            b"X\x01\0\0\0b",
            &parameter,
            b"X\x05\0\0\0stepsM\x10\x27",
            b"X\x04\0\0\0argscargparse\nNamespace\n)\x81}X\x02\0\0\0lrG\0\0\0\0\0\0\0\0sb",
            b"u}X\x09\0\0\0_metadataccollections\nOrderedDict\n)Rsb",
        ]);
        let listed = tensors(&bytes).unwrap();
        let names: Vec<&str> = listed.keys().map(|name| &**name).collect();
        assert_eq!(names, ["a", "b"]);
        let a = &listed["a"];
        assert_eq!((&*a.storage.class, &*a.storage.key), ("torch.FloatStorage", "0"));
        assert_eq!((a.offset, &a.shape[..], &a.strides[..]), (3, &[2, 4][..], &[4, 1][..]));
        assert_eq!(listed["a"], listed["b"]);
    }

    #[test]
    fn an_object_that_is_recalled_is_the_same_object() {
        // The dictionary is memoised while empty and filled through the memo.
        let tensor = rebuild(0, [1, 1], [1, 1]);
        let bytes = pickle(&[b"}q\x00", b"0"]);
        assert_eq!(tensors(&bytes), Err("opcode 0x30 at byte 5".to_owned()));
        let bytes = pickle(&[b"}r\x00\x01\0\0j\x00\x01\0\0X\x01\0\0\0x", &tensor, b"s"]);
        assert_eq!(tensors(&bytes).unwrap().len(), 1);
    }

    #[test]
    fn integers_of_any_width_are_read_with_their_sign() {
        assert_eq!(long(&[]), Some(0));
        assert_eq!(long(&[0xff]), Some(-1));
        assert_eq!(long(&[0xff, 0x00]), Some(255));
        assert_eq!(long(&[0, 0, 0, 0, 1]), Some(1 << 32));
        assert_eq!(long(&[1; 9]), None);
    }

    #[test]
    fn a_root_that_is_no_dictionary_is_an_error() {
        assert!(tensors(&pickle(&[b"]"])).unwrap_err().contains("a dictionary of tensors"));
        assert!(tensors(&pickle(&[])).unwrap_err().contains("empty stack"));
        assert!(tensors(&pickle(&[b"("])).unwrap_err().contains("a mark for an object"));
    }

    #[test]
    fn more_objects_than_any_checkpoint_has_are_refused() {
        let bytes = pickle(&[&vec![b')'; MAX_OBJECTS + 1]]);
        assert!(tensors(&bytes).unwrap_err().contains("more than 4000000 objects"));
    }
}
