//! Everything that one worker thread owns.
