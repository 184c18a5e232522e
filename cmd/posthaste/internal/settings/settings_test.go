package settings

import (
	"errors"
	"testing"
)

// load reads settings from lines NAME=VALUE of the environment. A broker list is there unless a line gives one.
func load(t testing.TB, environ ...string) (*Config, error) {
	t.Helper()
	return Load(Sources{Environ: environMap(append([]string{"KAFKA_BROKERS=b1:9092"}, environ...))})
}

// wrong loads and returns the problems by the variable's name.
func wrong(t testing.TB, environ ...string) map[string]Problem {
	t.Helper()
	_, err := load(t, environ...)
	var list *Error
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("%v: want an *Error, got %v", environ, err)
	}
	found := map[string]Problem{}
	if list != nil {
		for _, p := range list.Problems {
			found[p.Name] = p
		}
	}
	return found
}
