package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A time that time.Now gave knows the monotonic clock, and Sub, Before and After go by it: somebody who sets the wall
// clock of a relay's machine changes none of its decisions. What makes a time forget it has no place in the relay but
// for printing.
func TestRelayGoesByTheMonotonicClock(t *testing.T) {
	files, err := filepath.Glob("../../relay/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range wallClocks(file) {
				t.Errorf("%s: a time forgets the monotonic clock", set.Position(at))
			}
		}
	}
}

func TestWallClocksAreSeen(t *testing.T) {
	const source = `package p
		var _ = now.Round(0).Sub(then)
		var _ = time.Unix(0, 1)
		var _ = now.UTC().Before(then)
		var _ = now.UTC().Format(time.RFC3339)
		var _ = now.Sub(then).Round(time.Second)`
	file, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := wallClocks(file); len(found) != 3 {
		t.Errorf("%d places, want 3", len(found))
	}
}

// wallClocks returns where a time loses its monotonic reading or is made without one, other than to be printed.
func wallClocks(file *ast.File) (found []token.Pos) {
	forgets := []string{"UTC", "Local", "In", "Truncate", "Round", "AddDate", "Date", "Unix", "UnixMilli", "UnixMicro",
		"UnixNano"}
	printed := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch name := method.Sel.Name; {
		case name == "Format":
			printed[method.X] = true
		case name == "Round" && isCallOf(method.X, "Sub"): // a duration
		case slices.Contains(forgets, name) && !printed[call]:
			found = append(found, call.Pos())
		}
		return true
	})
	return found
}

func isCallOf(e ast.Expr, name string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && method.Sel.Name == name
}
