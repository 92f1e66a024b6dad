use super::*;
use proptest::prelude::*;

const INT: u32 = 1;
const FWD: u32 = 7;

/// Writes a BTF blob: each call of `add` makes the next type, numbers begin at 1.
#[derive(Default)]
struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Builder {
    fn new() -> Self {
        Self { types: Vec::new(), strings: vec![0], count: 0 }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn add(&mut self, name: &str, kind: u32, count: u32, reference: u32, rest: &[u32]) -> u32 {
        let name = self.string(name);
        for value in [name, kind << 24 | count, reference].iter().chain(rest) {
            self.types.extend(value.to_ne_bytes());
        }
        self.count += 1;
        self.count
    }

    /// `members` are (name, type, offset as it stands in the blob).
    fn compound(&mut self, name: &str, kind: u32, flag: u32, members: &[(&str, u32, u32)]) -> u32 {
        let rest: Vec<u32> =
            members.iter().flat_map(|(name, id, offset)| [self.string(name), *id, *offset]).collect();
        self.add(name, kind | flag << 7, members.len() as u32, 64, &rest)
    }

    fn finish(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut out = MAGIC.to_ne_bytes().to_vec();
        out.extend([1, 0]);
        for value in [HEADER_LEN as u32, 0, types, types, strings] {
            out.extend(value.to_ne_bytes());
        }
        out.extend(&self.types);
        out.extend(&self.strings);
        out
    }
}

const WANTED: Wanted<'static> =
    Wanted { structs: &["outer", "inner", "loop"], tracepoints: &["forked", "number", "absent"] };

/// One of everything that the kernel's BTF puts in our way.
fn sample() -> Vec<u8> {
    let mut b = Builder::new();
    // Two milestones' worth of other types, so that the wanted ones need steps from a milestone.
    for _ in 0..2 * STRIDE + 5 {
        b.add("int", INT, 0, 4, &[32]);
    }
    let int = b.count;
    let inner = b.compound("inner", STRUCT, 0, &[("first", int, 0), ("second", int, 32)]);
    let alias = b.add("inner_t", TYPEDEF, 0, inner, &[]);
    let constant = b.add("", CONST, 0, alias, &[]);
    let union = b.compound("", UNION, 0, &[("left", int, 0), ("right", constant, 0)]);
    // Offsets with a bit field's size in the upper byte.
    let outer = b.compound(
        "outer",
        STRUCT,
        1,
        &[("plain", int, 64), ("", union, 128), ("nested", constant, 256), ("bits", int, 3 << 24 | 5)],
    );
    b.compound("loop", STRUCT, 0, &[("", b.count + 1, 0)]);
    b.add("outer", FWD, 0, 0, &[]);
    let pointer = b.add("", PTR, 0, outer, &[]);
    let void = b.add("", PTR, 0, 0, &[]);
    let prototype = b.add("", FUNC_PROTO, 3, 0, &[0, void, 0, pointer, 0, int]);
    let function = b.add("", PTR, 0, prototype, &[]);
    b.add("btf_trace_forked", TYPEDEF, 0, function, &[]);
    b.add("btf_trace_number", TYPEDEF, 0, int, &[]);
    b.finish()
}

#[test]
fn fields_are_found_through_anonymous_members_and_typedefs() {
    let data = sample();
    let btf = Btf::scan(&data, WANTED).unwrap();
    for (path, offset) in [
        ("plain", 8),
        ("left", 16),
        ("right.second", 20),
        ("nested", 32),
        ("nested.first", 32),
        ("nested.second", 36),
    ] {
        assert_eq!(btf.offset("outer", path), Ok(offset), "{path}");
    }
}

#[test]
fn what_is_not_there_is_named() {
    let data = sample();
    let btf = Btf::scan(&data, WANTED).unwrap();
    let missing = |structure, path| Err(BtfError::NoField { structure, path });
    assert_eq!(btf.offset("outer", "absent"), missing("outer", "absent"));
    assert_eq!(btf.offset("outer", "plain.deeper"), missing("outer", "plain.deeper"));
    assert_eq!(btf.offset("nowhere", "plain"), missing("nowhere", "plain"));
    assert_eq!(btf.offset("loop", "anything"), missing("loop", "anything"));
    assert_eq!(btf.offset("outer", "bits"), Err(BtfError::BitField { structure: "outer", path: "bits" }));
    assert_eq!(btf.tracepoint("absent"), Err(BtfError::NoTracepoint { tracepoint: "absent" }));
    assert_eq!(btf.arguments("number"), Err(BtfError::NoTracepoint { tracepoint: "number" }));
}

#[test]
fn arguments_leave_out_the_first_pointer() {
    let data = sample();
    let btf = Btf::scan(&data, WANTED).unwrap();
    assert_eq!(btf.arguments("forked"), Ok(vec!["outer".to_owned(), "int".to_owned()]));
}

#[test]
fn every_cut_is_an_error_or_finds_no_less_than_it_says() {
    let data = sample();
    for len in 0..data.len() {
        assert!(Btf::scan(&data[..len], WANTED).is_err(), "cut to {len} bytes");
    }
}

#[test]
fn an_unknown_kind_stops_the_pass() {
    let mut b = Builder::new();
    b.add("future", 25, 0, 0, &[]);
    assert_eq!(Btf::scan(&b.finish(), WANTED).unwrap_err(), BtfError::UnknownKind { kind: 25 });
}

/// Asks everything: what matters is that each answer is finite and nothing panics.
fn ask(data: &[u8]) {
    let Ok(btf) = Btf::scan(data, WANTED) else { return };
    for structure in WANTED.structs {
        for path in ["plain", "left", "right.second", "nested.first", "absent"] {
            let _ = btf.offset(structure, path);
        }
    }
    for tracepoint in WANTED.tracepoints {
        let _ = btf.arguments(tracepoint);
    }
    let _ = format!("{btf:?}");
}

proptest! {
    #[test]
    fn no_mutation_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..24),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut data = sample();
        for (at, value) in changes {
            let at = at.index(data.len());
            data[at] = value;
        }
        if let Some(cut) = cut {
            data.truncate(cut.index(data.len()));
        }
        ask(&data);
    }

    #[test]
    fn no_rubbish_makes_it_panic(mut data in prop::collection::vec(any::<u8>(), 0..512)) {
        ask(&data);
        // The same behind a good header.
        let len = data.len() as u32;
        let mut whole = MAGIC.to_ne_bytes().to_vec();
        whole.extend([1, 0]);
        for value in [HEADER_LEN as u32, 0, len, 0, len] {
            whole.extend(value.to_ne_bytes());
        }
        whole.append(&mut data);
        ask(&whole);
    }
}
