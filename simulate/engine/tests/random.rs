//! Named random streams.

use rand::Rng;
use watermaster_engine::random::Stream;

/// Vectors from an implementation of the three algorithms written apart, in Python.
#[test]
fn matches_an_independent_implementation() {
    let vectors: [(u64, &str, [u64; 3]); 4] = [
        (1, "placement", [0xd34a_4f7b_cea6_1b54, 0x8857_150f_de41_627e, 0x848e_2117_6472_3022]),
        (1, "arrivals", [0xb108_2718_b8d3_255d, 0x7312_a1fa_ac85_e994, 0x122d_7ff8_ca97_f65c]),
        (2, "placement", [0x695c_0e6f_6ee7_b359, 0x2f8c_1fc3_8c7c_6614, 0x1a9b_6e84_55f6_9576]),
        (u64::MAX, "", [0xf798_d3f7_cdc7_97a2, 0xf1dd_bbe4_fd32_ace5, 0x5e0d_ea66_27c6_2bf2]),
    ];
    for (seed, name, expected) in vectors {
        let mut stream = Stream::named(seed, name);
        assert_eq!(expected.map(|_| stream.next_u64()), expected, "{seed} {name}");
    }
}

/// The correlation of two streams over 4096 draws stays within five standard deviations of none.
#[test]
fn streams_of_one_seed_are_uncorrelated() {
    const DRAWS: u32 = 4096;
    let unit = |stream: &mut Stream| f64::from(stream.next_u32()) / 2f64.powi(32) - 0.5;
    let (mut a, mut b) = (Stream::named(7, "a"), Stream::named(7, "b"));
    let sum: f64 = (0..DRAWS).map(|_| unit(&mut a) * unit(&mut b)).sum();
    let deviation = f64::from(DRAWS).sqrt() / 12.0;
    assert!(sum.abs() < 5.0 * deviation, "{sum} against {deviation}");
}
