package settings

import "slices"

// Choices are the values of a setting that takes one of a few, and nil for any other: what a shell can complete.
func (s Setting) Choices() []string { return slices.Clone(s.value.few) }
