//! The services of a Weft process: I/O server and metadata service
