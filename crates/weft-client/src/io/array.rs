//! The array that a file holds, as it says itself in an attribute.

use weft_layout::array::{ATTRIBUTE, Array, Slab};
use weft_proto::Code;

use crate::{Error, File, Place, Transfer};

impl File {
    /// The array that the file says it holds; `None` when it says nothing. One request.
    ///
    /// # Errors
    /// [`Error::Array`] when what it says is no array.
    pub async fn array(&self) -> Result<Option<Array>, Error> {
        let text = match self
            .0
            .volume
            .get_xattr(Place::of(self.id()), ATTRIBUTE)
            .await
        {
            Err(error) if error.code() == Code::NoAttribute => return Ok(None),
            text => text?,
        };
        Ok(Some(String::from_utf8_lossy(&text).parse()?))
    }

    /// Lets the file say that it holds this array. Its bytes stay as they are. One request.
    pub async fn set_array(&self, array: &Array) -> Result<(), Error> {
        let place = Place::of(self.id());
        self.0
            .volume
            .set_xattr(place, ATTRIBUTE, array.to_string())
            .await
    }
}

impl Transfer {
    /// A hyperslab of an array, packed in memory in the array's order.
    ///
    /// # Errors
    /// [`Error::Array`] when it does not fit the array.
    pub fn of_array(array: &Array, slabs: &[Slab]) -> Result<Transfer, Error> {
        let (offset, pattern) = array.hyperslab(slabs)?;
        Ok(Transfer::of(pattern).at(offset))
    }
}
