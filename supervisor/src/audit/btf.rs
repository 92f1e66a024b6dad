//! A small reader of the kernel's type information (BTF): where a field is, and what a tracepoint is given.
//!
//! Pure and total: it takes bytes, checks every bound, and answers torn or hostile input with an error. It makes one pass over the
//! types, keeps the place of every 64th only, and looks at names only where the kind fits, because a start of `proctor run` pays for
//! it each time and needs a dozen names out of tens of thousands.

use std::fmt;

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN: usize = 24;
/// How many types lie between two remembered places: one `u32` for 64 types, and at most 63 steps to reach any type.
const STRIDE: usize = 64;
/// Longest chain of typedefs and qualifiers, and deepest nesting of anonymous members, that is followed. Real kernels stay below 10;
/// the bound keeps a cycle in hostile input finite.
const DEPTH: u32 = 32;
/// Most members that one lookup visits over all nesting levels, so that hostile input cannot make it exponential.
const MEMBERS: u32 = 1 << 16;

const PTR: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC_PROTO: u32 = 13;
const TYPE_TAG: u32 = 18;

/// Number of a type within its BTF: what `attach_btf_id` of `BPF_PROG_LOAD` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(u32);

impl TypeId {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Why an answer could not be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// Header, sections or a type do not fit into the data.
    #[error("the kernel's type information is torn: {what} at byte {at}")]
    Torn {
        /// What was being read.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// A kind of type newer than this reader: the sizes of all that follow are unknown.
    #[error("the kernel's type information has types of kind {kind}, which this proctor does not know")]
    UnknownKind {
        /// The kind's number.
        kind: u32,
    },
    /// No struct of this name has the field.
    #[error("this kernel has no field `{path}` in `struct {structure}`")]
    NoField {
        /// Name of the struct.
        structure: &'static str,
        /// Dotted path of the field.
        path: &'static str,
    },
    /// The field does not begin at a byte.
    #[error("the field `{path}` of `struct {structure}` is a bit field")]
    BitField {
        /// Name of the struct.
        structure: &'static str,
        /// Dotted path of the field.
        path: &'static str,
    },
    /// The kernel has no such tracepoint, or its type is no function pointer.
    #[error("this kernel has no tracepoint `{tracepoint}`")]
    NoTracepoint {
        /// Name of the tracepoint.
        tracepoint: &'static str,
    },
}

/// The names that a pass looks for. Asking for another one later finds nothing.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// Structs.
    pub structs: &'w [&'static str],
    /// Tracepoints, without the `btf_trace_` before their typedef's name.
    pub tracepoints: &'w [&'static str],
}

/// One BTF blob with what was wanted of it.
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    milestones: Vec<u32>,
    count: u32,
    structs: Vec<(&'static str, TypeId)>,
    tracepoints: Vec<(&'static str, TypeId)>,
}

/// A type's fixed part and where it is.
#[derive(Clone, Copy)]
struct Type {
    at: usize,
    name: u32,
    info: u32,
    /// Size for structs, the type referred to for pointers, typedefs and prototypes.
    reference: u32,
}

impl Type {
    fn kind(self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    fn members(self) -> usize {
        (self.info & 0xffff) as usize
    }

    /// Offsets of members hold a bit field's size in their upper byte.
    fn has_bit_fields(self) -> bool {
        self.info & 0x8000_0000 != 0
    }

    /// Bytes of the type in the types section; none for a kind that is not known.
    fn len(self) -> Option<usize> {
        let variable = match self.kind() {
            // INT, VAR, DECL_TAG
            1 | 14 | 17 => 4,
            // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
            2 | 7 | 8 | 9 | 10 | 11 | 12 | 16 | 18 => 0,
            // ARRAY
            3 => 12,
            // STRUCT, UNION, DATASEC, ENUM64
            4 | 5 | 15 | 19 => 12 * self.members(),
            // ENUM, FUNC_PROTO
            6 | 13 => 8 * self.members(),
            _ => return None,
        };
        Some(12 + variable)
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

impl<'a> Btf<'a> {
    /// Reads the header, walks all types once and remembers the wanted ones.
    ///
    /// # Errors
    /// [`BtfError::Torn`] and [`BtfError::UnknownKind`]; a name that is not there is no error yet.
    pub fn scan(data: &'a [u8], wanted: Wanted<'_>) -> Result<Self, BtfError> {
        let torn = |what, at| BtfError::Torn { what, at };
        let magic = data.get(..2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        if magic != Some(MAGIC) {
            return Err(torn("no BTF magic number", 0));
        }
        let field = |at| word(data, at).map(|value| value as usize).ok_or(torn("header", at));
        let header_len = field(4)?;
        if header_len < HEADER_LEN {
            return Err(torn("length of the header", 4));
        }
        let section = |offset_at: usize, what| {
            let (offset, len) = (field(offset_at)?, field(offset_at + 4)?);
            let start = header_len.checked_add(offset).ok_or(torn(what, offset_at))?;
            let end = start.checked_add(len).ok_or(torn(what, offset_at))?;
            data.get(start..end).ok_or(torn(what, offset_at))
        };
        let types = section(8, "section of types")?;
        let strings = section(16, "section of strings")?;
        let mut btf = Btf {
            types,
            strings,
            milestones: Vec::with_capacity(types.len() / (STRIDE * 16)),
            count: 1,
            structs: Vec::new(),
            tracepoints: Vec::new(),
        };
        btf.walk(wanted)?;
        Ok(btf)
    }

    fn walk(&mut self, wanted: Wanted<'_>) -> Result<(), BtfError> {
        let mut at = 0;
        while at < self.types.len() {
            let found = self.type_at(at)?;
            let id = TypeId(self.count);
            if (self.count as usize - 1).is_multiple_of(STRIDE) {
                self.milestones.push(at as u32);
            }
            match found.kind() {
                STRUCT => {
                    let name = wanted.structs.iter().copied().find(|name| self.named(found.name, name));
                    self.structs.extend(name.map(|name| (name, id)));
                }
                TYPEDEF if self.string_starts(found.name, b"btf_trace_") => {
                    let rest = found.name + "btf_trace_".len() as u32;
                    let name = wanted.tracepoints.iter().copied().find(|name| self.named(rest, name));
                    self.tracepoints.extend(name.map(|name| (name, id)));
                }
                _ => {}
            }
            let len = found.len().ok_or(BtfError::UnknownKind { kind: found.kind() })?;
            at += len;
            self.count += 1;
        }
        if at > self.types.len() {
            return Err(BtfError::Torn { what: "last type", at });
        }
        Ok(())
    }

    fn type_at(&self, at: usize) -> Result<Type, BtfError> {
        let bytes = self.types.get(at..at + 12).ok_or(BtfError::Torn { what: "type", at })?;
        let part = |from| word(bytes, from).ok_or(BtfError::Torn { what: "type", at });
        Ok(Type { at, name: part(0)?, info: part(4)?, reference: part(8)? })
    }

    fn type_of(&self, id: TypeId) -> Result<Type, BtfError> {
        let torn = BtfError::Torn { what: "reference to a type", at: id.0 as usize };
        if id.0 == 0 || id.0 >= self.count {
            return Err(torn);
        }
        let index = id.0 as usize - 1;
        let mut at = *self.milestones.get(index / STRIDE).ok_or(torn)? as usize;
        for _ in 0..index % STRIDE {
            let step = self.type_at(at)?;
            at += step.len().ok_or(BtfError::UnknownKind { kind: step.kind() })?;
        }
        self.type_at(at)
    }

    fn string_starts(&self, offset: u32, prefix: &[u8]) -> bool {
        self.strings.get(offset as usize..).is_some_and(|rest| rest.starts_with(prefix))
    }

    fn named(&self, offset: u32, name: &str) -> bool {
        self.strings
            .get(offset as usize..)
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    fn string(&self, offset: u32) -> &'a [u8] {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
        rest.get(..end).unwrap_or_default()
    }

    /// Goes through typedefs and qualifiers to the type that they name; none for `void` and for a chain without an end.
    fn strip(&self, mut id: TypeId) -> Result<Option<Type>, BtfError> {
        for _ in 0..DEPTH {
            if id.0 == 0 {
                return Ok(None);
            }
            let found = self.type_of(id)?;
            match found.kind() {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = TypeId(found.reference),
                _ => return Ok(Some(found)),
            }
        }
        Ok(None)
    }

    /// Offset in bits and type of a direct member, or of a member of an anonymous one.
    fn member(
        &self,
        of: Type,
        name: &str,
        depth: u32,
        budget: &mut u32,
    ) -> Result<Option<(u64, TypeId)>, BtfError> {
        if depth == 0 || !matches!(of.kind(), STRUCT | UNION) {
            return Ok(None);
        }
        for index in 0..of.members() {
            let Some(left) = budget.checked_sub(1) else { return Ok(None) };
            *budget = left;
            let at = of.at + 12 + 12 * index;
            let member = self.type_at(at)?;
            let (called, id) = (member.name, TypeId(member.info));
            let offset = if of.has_bit_fields() { member.reference & 0x00ff_ffff } else { member.reference };
            if called != 0 {
                if self.named(called, name) {
                    return Ok(Some((u64::from(offset), id)));
                }
            } else if let Some(inner) = self.strip(id)?
                && let Some((further, id)) = self.member(inner, name, depth - 1, budget)?
            {
                return Ok(Some((u64::from(offset) + further, id)));
            }
        }
        Ok(None)
    }

    /// Offset in bytes of the field that `path` names (`"self.parent"`: a member of a member; pointers are not followed).
    ///
    /// # Errors
    /// [`BtfError::NoField`] also when the struct itself is not there or was not wanted.
    pub fn offset(&self, structure: &'static str, path: &'static str) -> Result<u64, BtfError> {
        for (_, id) in self.structs.iter().filter(|(name, _)| *name == structure) {
            if let Some(bits) = self.offset_in(*id, path)? {
                return match bits % 8 {
                    0 => Ok(bits / 8),
                    _ => Err(BtfError::BitField { structure, path }),
                };
            }
        }
        Err(BtfError::NoField { structure, path })
    }

    fn offset_in(&self, id: TypeId, path: &str) -> Result<Option<u64>, BtfError> {
        let (mut id, mut bits, mut budget) = (id, 0, MEMBERS);
        for name in path.split('.') {
            let Some(of) = self.strip(id)? else { return Ok(None) };
            let Some((offset, inner)) = self.member(of, name, DEPTH, &mut budget)? else { return Ok(None) };
            bits += offset;
            id = inner;
        }
        Ok(Some(bits))
    }

    /// The type to attach a program of this tracepoint to.
    ///
    /// # Errors
    /// [`BtfError::NoTracepoint`].
    pub fn tracepoint(&self, tracepoint: &'static str) -> Result<TypeId, BtfError> {
        self.tracepoints
            .iter()
            .find(|(name, _)| *name == tracepoint)
            .map(|(_, id)| *id)
            .ok_or(BtfError::NoTracepoint { tracepoint })
    }

    /// What the tracepoint passes: for each argument the name of the struct that it points to, or of the type itself (empty for one
    /// without a name).
    ///
    /// # Errors
    /// [`BtfError::NoTracepoint`], also when its type is no pointer to a function.
    pub fn arguments(&self, tracepoint: &'static str) -> Result<Vec<String>, BtfError> {
        let missing = BtfError::NoTracepoint { tracepoint };
        let pointer = self.strip(self.tracepoint(tracepoint)?)?.ok_or(missing.clone())?;
        if pointer.kind() != PTR {
            return Err(missing);
        }
        let prototype = self.type_of(TypeId(pointer.reference))?;
        if prototype.kind() != FUNC_PROTO {
            return Err(missing);
        }
        // The first parameter is the tracepoint's own `void *`.
        (1..prototype.members())
            .map(|index| {
                let at = prototype.at + 12 + 8 * index + 4;
                let id = word(self.types, at).ok_or(BtfError::Torn { what: "parameter", at })?;
                let mut of = self.strip(TypeId(id))?;
                if let Some(pointer) = of.filter(|of| of.kind() == PTR) {
                    of = self.strip(TypeId(pointer.reference))?;
                }
                Ok(of.map_or_else(String::new, |of| {
                    String::from_utf8_lossy(self.string(of.name)).into_owned()
                }))
            })
            .collect()
    }
}

impl fmt::Debug for Btf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Btf")
            .field("types", &self.count)
            .field("structs", &self.structs)
            .field("tracepoints", &self.tracepoints)
            .finish()
    }
}

#[cfg(test)]
mod tests;
