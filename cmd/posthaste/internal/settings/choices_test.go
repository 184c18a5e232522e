package settings

import "testing"

// What is offered is taken, and every setting that names its few values in a refusal offers them.
func TestChoicesAreTaken(t *testing.T) {
	t.Parallel()
	found := 0
	for _, s := range All() {
		for _, value := range s.Choices() {
			found++
			if err := s.value.parse(value); err != nil {
				t.Errorf("%s: %q is offered and refused: %v", s.Env, value, err)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d values are offered", found)
	}
}
