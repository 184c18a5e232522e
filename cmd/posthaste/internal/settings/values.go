package settings

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"posthaste.dev/posthaste/internal/pgname"
)

// value ties a setting to the field of Config that it fills.
//
// Zero is refused where it has no meaning of its own: in package relay a zero stands for the default, and a value given
// must never turn into another. Ranges are judged there.
type value struct {
	form  string                 // what is wanted, for people
	few   []string               // all values, where they are few
	parse func(string) error     // fills the field, or says what it wants instead
	tags  []string               // what of YAML's own types is taken as text, besides text itself
	list  func(*yaml.Node) error // fills the field from a list of the YAML file; nil where a list is no form
	get   func() any             // the field as a person would give it; nil: not set
}

// Numbers stand in YAML files without quotes, too.
var numbers = []string{"!!int", "!!float"}

func text[T ~string](field *T) value {
	return value{
		form: "text",
		parse: func(s string) error {
			*field = T(s)
			return nil
		},
		get: func() any { return orNil(string(*field)) },
	}
}

func columns(field *string) value {
	v := text(field)
	v.form = "usual=other pairs, separated by commas"
	v.parse = func(s string) error {
		if _, err := pgname.ParseColumns(s); err != nil {
			return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		*field = s
		return nil
	}
	return v
}

// secret is text of which no more is told than that it is there.
func secret(field *string) value {
	v := text(field)
	v.get = func() any {
		if *field == "" {
			return nil
		}
		return "set"
	}
	return v
}

func orNil[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

func choice[T ~string](field *T, allowed ...T) value {
	list := make([]string, len(allowed))
	for i, a := range allowed {
		list[i] = string(a)
	}
	last := len(list) - 1
	form := strings.Join(list[:last], ", ") + " or " + list[last]
	return value{
		form: form,
		few:  list,
		parse: func(s string) error {
			if !slices.Contains(allowed, T(s)) {
				return errors.New("want " + form)
			}
			*field = T(s)
			return nil
		},
		get: func() any { return string(*field) },
	}
}

// onOff takes YAML's true and false too, since programs that write YAML turn a bare on into true.
func onOff(field *bool) value {
	return value{
		form: "on or off",
		few:  []string{"on", "off"},
		tags: []string{"!!bool"},
		parse: func(s string) error {
			if s != "on" && s != "off" {
				return errors.New("want on or off")
			}
			*field = s == "on"
			return nil
		},
		get: func() any {
			if *field {
				return "on"
			}
			return "off"
		},
	}
}

func positive(field *int) value {
	return value{
		form: "a whole number above 0",
		tags: numbers,
		parse: func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				return errors.New("want a whole number above 0")
			}
			*field = n
			return nil
		},
		get: func() any { return orNil(*field) },
	}
}

func lanes(field *int) value {
	return value{
		form: "a power of two from 1 to 1024",
		tags: numbers,
		parse: func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || n > 1024 || n&(n-1) != 0 {
				return errors.New("want a power of two from 1 to 1024")
			}
			*field = n
			return nil
		},
		get: func() any { return orNil(*field) },
	}
}

// duration takes YAML's numbers only to say what they lack.
func duration(field *time.Duration) value {
	return value{
		form: "a duration, such as 500ms, 5s or 2m",
		tags: numbers,
		parse: func(s string) error {
			d, err := time.ParseDuration(s)
			if err != nil || d <= 0 {
				return errors.New("want a duration with its unit, such as 500ms, 5s or 2m")
			}
			*field = d
			return nil
		},
		get: func() any { return shortDuration(*field) },
	}
}

// shortDuration prints 5m, not 5m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func seconds(field *time.Duration) value {
	return value{
		form: "a number above 0",
		tags: numbers,
		parse: func(s string) error {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || math.IsNaN(f) || f < 1e-9 || f > 1e9 {
				return errors.New("want a number of seconds above 0, such as 0.5")
			}
			*field = time.Duration(f * float64(time.Second))
			return nil
		},
		get: func() any { return field.Seconds() },
	}
}

func address(field *string) value {
	return value{
		form: "host:port or :port, or empty",
		parse: func(s string) error {
			if s != "" {
				checked := s
				if host, any := strings.CutSuffix(s, ":0"); any {
					checked = host + ":1" // of port 0 all but the port must be right
				}
				if _, _, err := splitHostPort(checked); err != nil {
					return fmt.Errorf("want host:port or :port, or nothing: %w", err)
				}
			}
			*field = s
			return nil
		},
		get: func() any { return *field },
	}
}
