//! One queue: order, redelivery, expiry, groups, limits.
