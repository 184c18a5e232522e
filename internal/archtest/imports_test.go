// Package archtest holds the house to its plan: which package may import which. The plan is ARCHITECTURE.md's.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "posthaste.dev/posthaste"

// rule says what the packages below a path may import of the project and of others. Standard library and the package's
// own tests are free. The longest matching path is the rule that counts.
type rule struct {
	path   string
	own    []string // packages of the project, and everything below those that end with /...
	others []string // modules
}

var rules = []rule{
	{path: "", own: []string{"internal/pgname", "internal/wire"},
		others: []string{"github.com/jackc/pgx/v5/pgconn", "github.com/google/uuid", "go.opentelemetry.io/otel/trace"}},
	{path: "relay", others: []string{"github.com/google/uuid"}},
	{path: "postgres", own: []string{"relay", "internal/pgname"},
		others: []string{"github.com/jackc/pgx/v5", "github.com/google/uuid", "golang.org/x/sync/errgroup"}},
	{path: "kafka", own: []string{"relay", "internal/wire"}, others: []string{"github.com/twmb/franz-go"}},
	{path: "posthastetest", own: []string{"", "postgres", "internal/pgname", "internal/testenv"},
		others: []string{"github.com/jackc/pgx/v5", "github.com/google/uuid"}},
	{path: "internal/pgname"},
	{path: "internal/wire"},
	{path: "internal/testenv"},
	{path: "internal/archtest"},
	{path: "bench", own: []string{"", "relay", "postgres", "kafka", "internal/pgname", "internal/testenv"},
		others: []string{"github.com/jackc/pgx/v5", "github.com/twmb/franz-go", "github.com/google/uuid"}},
	// Users copy the examples, and could not import an internal package.
	{path: "examples", own: []string{"", "relay", "postgres", "kafka"}, others: []string{"*"}},
	{path: "examples/internal/suite", own: []string{"", "posthastetest"}},
	{path: "testbed", own: []string{"internal/testenv", "testbed/..."}, others: []string{"*"}},
	{path: "cmd", own: []string{"", "relay", "postgres", "kafka", "internal/pgname", "cmd/..."}, others: []string{"*"}},
	{path: "cmd/posthaste/internal/demo", own: []string{"", "kafka", "cmd/...", "testbed/servers"},
		others: []string{"*"}},
	{path: "e2e", own: []string{"", "internal/testenv", "testbed/...", "e2e/..."}, others: []string{"*"}},
}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// load lists the packages of all modules with their direct imports, without those of tests.
func load(t *testing.T) []listed {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...", "./cmd/...", "./e2e/...", "./examples/...",
		"./testbed/...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// ruleOf returns the rule of a package, named within the module.
func ruleOf(pkg string) (rule, bool) {
	best, found := rule{}, false
	for _, r := range rules {
		match := pkg == r.path || r.path != "" && strings.HasPrefix(pkg, r.path+"/")
		if match && (!found || len(r.path) > len(best.path)) {
			best, found = r, true
		}
	}
	return best, found
}

// violation says what is wrong with an import, or "".
func violation(pkg, imported string) string {
	r, ok := ruleOf(pkg)
	switch {
	case !ok:
		return "has no rule: give it a room in ARCHITECTURE.md and a rule here"
	case imported == module || strings.HasPrefix(imported, module+"/"):
		own := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
		allowed := slices.ContainsFunc(r.own, func(p string) bool {
			below, tree := strings.CutSuffix(p, "/...")
			return own == p || tree && (own == below || strings.HasPrefix(own, below+"/"))
		})
		if !allowed && own != r.path && !strings.HasPrefix(own, r.path+"/") || !allowed && r.path == "" {
			return "may not import " + imported
		}
	case strings.Contains(strings.Split(imported, "/")[0], "."):
		allowed := slices.ContainsFunc(r.others, func(p string) bool {
			return p == "*" || imported == p || strings.HasPrefix(imported, p+"/")
		})
		if !allowed {
			return "may not import " + imported
		}
	}
	return ""
}

func TestImports(t *testing.T) {
	packages := load(t)
	if len(packages) < 10 {
		t.Fatalf("found only %d packages", len(packages))
	}
	for _, p := range packages {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imported := range p.Imports {
			if wrong := violation(name, imported); wrong != "" {
				t.Errorf("package %q %s", name, wrong)
			}
		}
	}
}

func TestRulesRefuse(t *testing.T) {
	for _, c := range [][2]string{
		{"postgres", module + "/kafka"},
		{"kafka", module + "/postgres"},
		{"relay", module + "/postgres"},
		{"relay", "github.com/jackc/pgx/v5"},
		{"postgres", "github.com/twmb/franz-go/pkg/kgo"},
		{"", module + "/relay"},
		{"", "github.com/twmb/franz-go/pkg/kgo"},
		{"", "github.com/jackc/pgx/v5"},
		{"e2e/check", module + "/relay"},
		{"examples/pgx", module + "/internal/testenv"},
		{"new/room", "fmt"},
	} {
		if violation(c[0], c[1]) == "" {
			t.Errorf("package %q may import %s", c[0], c[1])
		}
	}
}

// TestImportersTakeLittleAlong holds the modules that a service takes along with the root module.
func TestImportersTakeLittleAlong(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"kfake", "embedded-postgres", "opentelemetry.io/otel/sdk", "prometheus", "cobra",
		"testscript", "gorm.io", "entgo.io", "uptrace/bun", "lib/pq"} {
		if strings.Contains(string(text), word) {
			t.Errorf("go.mod requires %s: what only a program or a test needs belongs into that program's module", word)
		}
	}
}
