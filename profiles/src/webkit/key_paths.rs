//! Key paths in WebKit's format: dictionaries of `GVariant` (`a{sv}`), of which only the needed part is implemented.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPath {
    None,
    One(String),
    /// The key is an array of the values at these paths.
    Several(Vec<String>),
}

pub const MAX_STRINGS: usize = 100;
const MAX_BYTES: usize = 16 * 1024;
/// Dictionary member with the kind of the path.
const KIND: &str = "type";

impl KeyPath {
    pub fn is_bounded(&self) -> bool {
        match self {
            Self::None => true,
            Self::One(path) => is_bounded([path]),
            Self::Several(paths) => (1..=MAX_STRINGS).contains(&paths.len()) && is_bounded(paths),
        }
    }

    /// `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > 2 * MAX_BYTES {
            return None;
        }
        let dictionary = elements(bytes)?.into_iter().map(entry).collect::<Option<Vec<_>>>()?;
        let path = match dictionary[..] {
            [(KIND, "x", _)] => Self::None,
            [(KIND, "x", _), ("string", "s", path)] => Self::One(string(path)?),
            [(KIND, "x", _), ("array", "aa{sv}", paths)] => {
                let path = |path| match elements(path)?[..] {
                    [only] => entry(only).filter(|(name, kind, _)| (*name, *kind) == ("string", "s")),
                    _ => None,
                };
                let paths = elements(paths)?.into_iter().map(|element| string(path(element)?.2));
                Self::Several(paths.collect::<Option<_>>()?)
            }
            _ => return None,
        };
        // Each path has only one valid encoding.
        (path.is_bounded() && path.encode() == bytes).then_some(path)
    }

    pub fn encode(&self) -> Vec<u8> {
        let kind = |kind: i64| member(KIND, &kind.to_le_bytes(), "x");
        match self {
            Self::None => array(&[kind(0)]),
            Self::One(path) => array(&[kind(1), path_member(path)]),
            Self::Several(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| array(&[path_member(path)])).collect();
                array(&[kind(2), member("array", &array(&paths), "aa{sv}")])
            }
        }
    }
}

fn is_bounded<'a>(paths: impl IntoIterator<Item = &'a String>) -> bool {
    let mut bytes = 0;
    paths.into_iter().all(|path| {
        bytes += path.len();
        bytes <= MAX_BYTES && !path.contains('\0')
    })
}

fn path_member(path: &str) -> Vec<u8> {
    member("string", &[path.as_bytes(), b"\0"].concat(), "s")
}

/// The value is aligned to 8 bytes. The size of the member determines the size of the offset at its end.
fn member(name: &str, value: &[u8], kind: &str) -> Vec<u8> {
    let mut member = [name.as_bytes(), b"\0"].concat();
    let end_of_name = member.len();
    align(&mut member);
    member.extend(value);
    member.push(0);
    member.extend(kind.as_bytes());
    let size = size_of_offsets(member.len(), 1);
    member.extend(&end_of_name.to_le_bytes()[..size]);
    member
}

/// Each element is aligned to 8 bytes; the offsets of their ends follow.
fn array(elements: &[Vec<u8>]) -> Vec<u8> {
    let (mut array, mut ends) = (Vec::new(), Vec::new());
    for element in elements {
        align(&mut array);
        array.extend(element);
        ends.push(array.len());
    }
    let size = size_of_offsets(array.len(), ends.len());
    array.extend(ends.iter().flat_map(|end| end.to_le_bytes().into_iter().take(size)));
    array
}

fn align(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// `bytes` precede the offsets.
fn size_of_offsets(bytes: usize, offsets: usize) -> usize {
    [(1, 0xFF), (2, 0xFFFF)].into_iter().find(|(size, max)| bytes + size * offsets <= *max).map_or(4, |(size, _)| size)
}

/// `bytes` include the offsets.
fn size_of_offset(bytes: usize) -> usize {
    size_of_offsets(bytes, 0)
}

fn offset(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |offset, byte| offset << 8 | usize::from(*byte))
}

fn elements(array: &[u8]) -> Option<Vec<&[u8]>> {
    let size = size_of_offset(array.len());
    let last = offset(array.get(array.len().checked_sub(size)?..)?);
    let (content, ends) = array.split_at_checked(last)?;
    let mut begin = 0_usize;
    let elements = ends.chunks(size).map(|end| {
        let end = offset(end);
        let element = content.get(begin.next_multiple_of(8)..end);
        begin = end;
        element
    });
    elements.collect()
}

/// Name, type and bytes of the value.
fn entry(member: &[u8]) -> Option<(&str, &str, &[u8])> {
    let size = size_of_offset(member.len());
    let (member, end) = member.split_at_checked(member.len().checked_sub(size)?)?;
    let end = offset(end);
    let name = str::from_utf8(member.get(..end)?.strip_suffix(b"\0")?).ok()?;
    let variant = member.get(end.next_multiple_of(8)..)?;
    let kind = variant.iter().rposition(|byte| *byte == 0)?;
    Some((name, str::from_utf8(&variant[kind + 1..]).ok()?, &variant[..kind]))
}

fn string(bytes: &[u8]) -> Option<String> {
    str::from_utf8(bytes.strip_suffix(b"\0")?).ok().map(str::to_owned)
}
