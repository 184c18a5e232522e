package settings

import (
	"fmt"
	"strings"
)

// Problem is one wrong setting.
type Problem struct {
	Name   string `json:"name"`             // of the variable, or the key of the file that belongs to no setting
	Given  string `json:"given,omitempty"`  // "" for a secret or for one that is missing
	Source string `json:"source,omitempty"` // where it was given; "" for the environment
	Want   string `json:"want"`
}

func (p Problem) Error() string {
	text := p.Name
	if p.Given != "" {
		text += "=" + p.Given
	}
	if p.Source != "" {
		text += " (" + p.Source + ")"
	}
	return text + ": " + p.Want
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// Error is every wrong setting at once.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Error()
	}
	return "read settings: " + strings.Join(texts, "; ")
}

// split takes apart what errors.Join joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
