//! Edge colouring of a bipartite multigraph: edges that share an end get different colours, and no
//! more colours are used than the largest degree.
//!
//! Source: sync-vs-async, section III-A (Paull's algorithm for Clos networks; the colour of a
//! packet is the parallel unit link that it takes). König's theorem says that so many colours
//! are enough, and the alternating paths of its proof find them: O(edges × nodes) at worst, a look
//! at two words an edge as a rule.

use alloc::vec;
use alloc::vec::Vec;

/// No edge.
const NONE: u32 = u32::MAX;

/// Colours edges, keeping its tables from one graph to the next.
#[derive(Clone, Debug)]
pub struct Colouring {
    colours: usize,
    /// Words that hold a bit for each colour.
    words: usize,
    sides: [Side; 2],
}

/// The nodes of one side.
#[derive(Clone, Debug)]
struct Side {
    /// A bit for each colour, set while no edge of the node has it.
    free: Vec<u64>,
    /// The edge of each colour at each node.
    edges: Vec<u32>,
}

impl Colouring {
    /// For graphs with so many nodes on each side, and so many colours to use.
    pub fn new(nodes: usize, colours: usize) -> Self {
        let words = colours.div_ceil(64);
        let side = Side { free: vec![0; nodes * words], edges: vec![NONE; nodes * colours] };
        Self { colours, words, sides: [side.clone(), side] }
    }

    /// Sets `out` to the colour of each of `edges`, left node and right node. When a node has more
    /// edges than there are colours, the edges for which none is left get `None`, and so do those
    /// whose nodes don't exist.
    pub fn colour(&mut self, edges: &[(usize, usize)], out: &mut Vec<Option<usize>>) {
        for side in &mut self.sides {
            side.edges.fill(NONE);
            for row in side.free.chunks_mut(self.words.max(1)) {
                for (word, bits) in row.iter_mut().enumerate() {
                    let left = self.colours - 64 * word;
                    *bits = if left < 64 { (1 << left) - 1 } else { u64::MAX };
                }
            }
        }
        out.clear();
        out.resize(edges.len(), None);
        let nodes = self.sides[0].edges.len().checked_div(self.colours).unwrap_or(0);
        for (number, &(left, right)) in (0u32..).zip(edges) {
            if left >= nodes || right >= nodes {
                continue;
            }
            let colour = self.both_free(left, right).or_else(|| {
                let (ours, theirs) = (self.first_free(0, left)?, self.first_free(1, right)?);
                self.flip(right, ours, theirs, edges, out);
                Some(ours)
            });
            if let Some(colour) = colour {
                self.set(number, edges, colour);
                out[number as usize] = Some(colour);
            }
        }
    }

    fn row(&self, side: usize, node: usize) -> &[u64] {
        &self.sides[side].free[node * self.words..][..self.words]
    }

    fn both_free(&self, left: usize, right: usize) -> Option<usize> {
        let both = self.row(0, left).iter().zip(self.row(1, right)).map(|(a, b)| a & b);
        first(both)
    }

    fn first_free(&self, side: usize, node: usize) -> Option<usize> {
        first(self.row(side, node).iter().copied())
    }

    fn set(&mut self, edge: u32, edges: &[(usize, usize)], colour: usize) {
        let (left, right) = edges[edge as usize];
        for (side, node) in self.sides.iter_mut().zip([left, right]) {
            side.edges[node * self.colours + colour] = edge;
            side.free[node * self.words + colour / 64] &= !(1 << (colour % 64));
        }
    }

    /// Frees colour `a` at the right node by swapping it with `b`, which is free there, along the
    /// path of edges coloured `a`, `b`, `a`, … that starts at it. The path can't reach the left
    /// node at which `a` is free: it would arrive there by an edge of that colour.
    fn flip(
        &mut self,
        right: usize,
        a: usize,
        b: usize,
        edges: &[(usize, usize)],
        out: &mut [Option<usize>],
    ) {
        let (mut side, mut node, mut old, mut new) = (1, right, a, b);
        let mut path = Vec::new();
        loop {
            let edge = self.sides[side].edges[node * self.colours + old];
            if edge == NONE {
                break;
            }
            path.push((edge, old, new));
            let (left, right) = edges[edge as usize];
            node = if side == 1 { left } else { right };
            side = 1 - side;
            (old, new) = (new, old);
        }
        for &(edge, old, _) in &path {
            let (left, right) = edges[edge as usize];
            for (side, node) in self.sides.iter_mut().zip([left, right]) {
                side.edges[node * self.colours + old] = NONE;
                side.free[node * self.words + old / 64] |= 1 << (old % 64);
            }
        }
        for &(edge, _, new) in &path {
            self.set(edge, edges, new);
            out[edge as usize] = Some(new);
        }
    }
}

/// The position of the first bit set.
fn first(words: impl Iterator<Item = u64>) -> Option<usize> {
    let (word, bits) = words.enumerate().find(|(_, bits)| *bits != 0)?;
    Some(64 * word + bits.trailing_zeros() as usize)
}
