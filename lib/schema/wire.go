package schema

import "forge/lib/wire"

// Wire is not written yet.
func Wire(author wire.Value) (shown wire.Value, reason string) { return author, "" }
