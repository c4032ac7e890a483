//! Makes room in a filter of bits that is full.

use super::Filter;
use crate::bloom::outcome::AddError;
use crate::bloom::room::Room;

impl Filter {
    /// Appends the next part to a filter whose layers are all full and that has no table.
    ///
    /// # Errors
    /// [`AddError`] if the filter cannot grow; the same one for the rest of the command.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&mut self, room: &Room<'_>) -> Result<(), AddError> {
        if let Some(error) = room.refused() {
            return Err(AddError::CannotGrow(error));
        }
        let part = self.policy.next_part(self.layers()).inspect_err(|error| {
            if let AddError::CannotGrow(error) = error {
                room.refuse(*error);
            }
        })?;
        self.push(part, room).map_err(|error| {
            room.refuse(error);
            AddError::CannotGrow(error)
        })
    }
}
