//! Job classes by size (Phurti, table 6.1).

use model::JobClass;
use units::Bytes;

/// Percentage of the jobs in each class and thousandths of the bytes, smallest class first.
pub(crate) const SHARES: [(JobClass, usize, u32); 3] =
    [(JobClass::Small, 62, 55), (JobClass::Medium, 16, 103), (JobClass::Large, 22, 842)];

/// The classes of `count` jobs from the smallest to the largest; bounds are rounded to the nearest
/// whole job.
pub(crate) fn ranked(count: usize) -> impl Iterator<Item = JobClass> {
    let bound = move |percent: usize| (count * percent + 50) / 100;
    let (small, medium) = (bound(SHARES[0].1), bound(SHARES[0].1 + SHARES[1].1));
    (0..count).map(move |rank| match rank {
        _ if rank < small => JobClass::Small,
        _ if rank < medium => JobClass::Medium,
        _ => JobClass::Large,
    })
}

/// The class of each job by the rank of its size: the smallest 62 % are small, the next 16 %
/// medium, the rest large. Of equal sizes the earlier ranks lower.
pub fn by_rank(sizes: &[Bytes]) -> Vec<JobClass> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&job| sizes[job]);
    let mut classes = vec![JobClass::Small; sizes.len()];
    for (job, class) in order.into_iter().zip(ranked(sizes.len())) {
        classes[job] = class;
    }
    classes
}
