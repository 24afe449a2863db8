//! All that a gathering front end and hubs hear: clients' commands, memcached's answers, each other's messages. The first
//! byte says which, and in what pieces. However a stream is cut, the same is read from it.
#![no_main]
#![forbid(unsafe_code)]

use bytes::BytesMut;
use gather::answer::{self, Answer};
use gather::command::{Bounds, Command, Form, Parser};
use gather::message::Message;
use libfuzzer_sys::fuzz_target;

const ITEM: usize = 1024;
const BOUNDS: Bounds = Bounds { keys: 32, item: ITEM };
/// Largest frame.
const FRAME: usize = 4096;

/// What `next` takes out of a stream in pieces of `size`, until it refuses.
fn all<T>(
    stream: &[u8],
    size: usize,
    mut next: impl FnMut(&mut BytesMut) -> Result<Option<T>, ()>,
) -> Vec<T> {
    let (mut buffer, mut read) = (BytesMut::new(), Vec::new());
    for piece in stream.chunks(size) {
        buffer.extend_from_slice(piece);
        loop {
            match next(&mut buffer) {
                Ok(Some(one)) => read.push(one),
                Ok(None) => break,
                Err(()) => return read,
            }
        }
    }
    read
}

fn commands(stream: &[u8], size: usize) -> Vec<Command> {
    let (mut parser, mut ended) = (Parser::new(BOUNDS), false);
    all(stream, size, |buffer| {
        if ended {
            return Err(());
        }
        let command = parser.next(buffer);
        assert!(command.is_some() || buffer.len() <= parser.most(), "it waits for too much");
        ended = matches!(command, Some(Command::Fatal(_)));
        Ok(command)
    })
}

fn answers(stream: &[u8], size: usize, form: Option<Form>) -> Vec<Answer> {
    all(stream, size, |buffer| {
        let answer = match form {
            None => answer::values(buffer, ITEM),
            Some(form) => answer::whole(buffer, form, ITEM),
        };
        answer.map_err(drop)
    })
}

fuzz_target!(|data: &[u8]| {
    let [how, stream @ ..] = data else { return };
    let (size, whole) = (usize::from(how >> 3) + 1, stream.len().max(1));
    let form = [None, Some(Form::Line), Some(Form::Meta), Some(Form::Quiet)];
    match how & 7 {
        0..=3 => assert_eq!(commands(stream, size), commands(stream, whole)),
        at @ 4..=6 => {
            let form = form[usize::from(at) - 4];
            assert_eq!(answers(stream, size, form), answers(stream, whole, form));
        }
        _ => {
            let read =
                |size| all(stream, size, |buffer| Message::read(buffer, FRAME).map_err(drop));
            let messages = read(size);
            assert_eq!(messages, read(whole));
            // What was understood is said the same way again.
            for message in messages {
                let mut frame = BytesMut::from(&message.frame()[..]);
                assert_eq!(Message::read(&mut frame, 2 * FRAME), Ok(Some(message)));
            }
            assert_eq!(answers(stream, size, form[3]), answers(stream, whole, form[3]));
        }
    }
});
