//! Reading a message, and all that is in it, allocates nothing; writing into a buffer with room
//! doesn't either.
#![allow(clippy::unwrap_used)] // a test may panic

use testing::allocation::{Counting, asked};
use watermaster_openflow::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn reading_and_writing_allocate_nothing() {
    let fields = [Field::exact(Kind::InPort, 3_u8).into()];
    let actions = [Action::DecNwTtl, Action::output(PortNo(4))];
    let instructions = [Instruction::ApplyActions(List::of(&actions))];
    let flow = FlowMod {
        fields: List::of(&fields),
        instructions: List::of(&instructions),
        ..FlowMod::ADD
    };
    let mut bytes = Vec::with_capacity(1000);
    let needed = asked(|| {
        Message::FlowMod(flow).encode(7, &mut bytes).unwrap();
        let (xid, message) = Message::decode(&bytes).unwrap();
        let Message::FlowMod(read) = message else { panic!() };
        let count: usize = read
            .instructions
            .iter()
            .map(|instruction| match instruction {
                Instruction::ApplyActions(actions) => actions.iter().count(),
                _ => 0,
            })
            .sum();
        assert_eq!((xid, read, count), (7, flow, 2));
    });
    assert_eq!(needed, 0);
    // And the count works.
    assert_eq!(asked(|| drop(std::hint::black_box(Box::new(5)))), 1);
}
