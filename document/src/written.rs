//! Values as TOML again, to be handed on in a file of another program.

use std::fmt::Write as _;

use crate::document::{Node, Table};

/// The members of a table, one a line, without those called `left_out`. Tables in it are inline.
pub(crate) fn body(table: &Table, left_out: &[&str]) -> String {
    let mut text = String::new();
    for (key, (_, item)) in table.iter().filter(|(key, _)| !left_out.contains(&key.as_str())) {
        quote(key, &mut text);
        text.push_str(" = ");
        value(&item.node, &mut text);
        text.push('\n');
    }
    text
}

/// The value on one line.
pub(crate) fn inline(node: &Node) -> String {
    let mut text = String::new();
    value(node, &mut text);
    text
}

fn value(node: &Node, text: &mut String) {
    match node {
        Node::Text(content) => quote(content, text),
        Node::Integer(number) => {
            let _ = write!(text, "{number}");
        }
        // The debug form has a fraction or an exponent always, as TOML wants; "NaN" it calls "nan".
        Node::Float(number) if number.is_nan() => text.push_str("nan"),
        Node::Float(number) => {
            let _ = write!(text, "{number:?}");
        }
        Node::Bool(flag) => {
            let _ = write!(text, "{flag}");
        }
        Node::List(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                text.push_str(if position > 0 { ", " } else { "" });
                value(&item.node, text);
            }
            text.push(']');
        }
        Node::Table(table) => {
            text.push('{');
            for (position, (key, (_, item))) in table.iter().enumerate() {
                text.push_str(if position > 0 { ", " } else { " " });
                quote(key, text);
                text.push_str(" = ");
                value(&item.node, text);
            }
            text.push_str(" }");
        }
        // Which date it was isn't kept, because nothing uses one: the reader refuses this too.
        Node::Date => text.push_str("1970-01-01"),
    }
}

/// A basic string (TOML 1.0).
fn quote(content: &str, text: &mut String) {
    text.push('"');
    for c in content.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(text, "\\U{:08X}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    fn table(text: &str) -> Table {
        match Document::read("t", text, &[]).unwrap().root.node {
            Node::Table(table) => table,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let text = "name = \"a \\\"b\\\" \\\\ \\n \\u007f é\"\nn = -3\nx = 1e-6\nbig = 2e30\nflag = true\n\
                    list = [1, [\"2\"], { a = 1.0, \"b c\" = [] }]\ninner = { k = \"v\" }\nlabel = \"gone\"\n";
        let written = body(&table(text), &["label"]);
        assert!(!written.contains("gone"), "{written}");
        // Written again it stays as it is, so nothing was lost or changed on the way.
        assert_eq!(body(&table(&written), &[]), written);
        assert!(
            written.contains("\"x\" = 1e-6\n") && written.contains("\"n\" = -3\n"),
            "{written}"
        );
    }
}
