package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"posthaste.dev/posthaste/testbed/servers"
)

// recipe is a program of examples/ in another language. Its README's first block of commands is what a test runs: the
// last one is the program, those before it install what it needs.
type recipe struct {
	folder   string
	commands []string // that the README needs
	wayOut   string   // where one of them is missing
	version  []string // command: what was installed with another version is installed anew
}

var (
	pythonRecipe = recipe{"python", []string{"python3"},
		"Python 3.10 or newer with venv (Debian: apt-get install python3-venv)", []string{"python3", "--version"}}
	javaRecipe = recipe{"java", []string{"javac", "mvn"},
		"a JDK of version 17 or newer and Maven (Debian: apt-get install default-jdk-headless maven)",
		[]string{"java", "-version"}}
	typescriptRecipe = recipe{"typescript", []string{"node", "npm"},
		"Node.js 18 or newer with npm (Debian: apt-get install nodejs npm)", []string{"node", "--version"}}
	sqlRecipe = recipe{"sql", []string{"psql"},
		"PostgreSQL's psql (Debian: apt-get install postgresql-client)", []string{"psql", "--version"}}
)

// installed returns a folder with the program and what it needs. The checkout stays clean: it is a copy in the test
// servers' cache, kept until the program or the toolchain changes.
func (r recipe) installed(t *testing.T) string {
	t.Helper()
	for _, command := range r.commands {
		if _, err := exec.LookPath(command); err != nil {
			t.Fatalf("no %s in PATH for examples/%s: run scripts/install, or install %s", command, r.folder, r.wayOut)
		}
	}
	version, err := exec.CommandContext(t.Context(), r.version[0], r.version[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(r.version, " "), err, version)
	}
	sum := sha256.New()
	sum.Write(version)
	steps := r.steps(t)
	fmt.Fprintf(sum, "%q", steps)
	files := r.files(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	name := fmt.Sprintf("example-%s-%.6x", r.folder, sum.Sum(nil))
	dir, err := servers.Cached(t.Context(), name, func(dir string) error {
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
		}
		for _, step := range steps[:len(steps)-1] {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", step)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", step, err, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("install examples/%s: %v", r.folder, err)
	}
	return dir
}

// program returns the command that runs the program of an installed recipe.
func (r recipe) program(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	steps := r.steps(t)
	return r.shell(t, steps[len(steps)-1], env...)
}

// shell returns a command to be run in an installed recipe, with no other settings of the developer's than these.
func (r recipe) shell(t *testing.T, command string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	cmd.Dir = r.installed(t)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return cmd
}

// steps reads the first indented block of the README.
func (r recipe) steps(t *testing.T) (steps []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.source(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		step, ok := strings.CutPrefix(line, "    ")
		if ok {
			steps = append(steps, strings.TrimSpace(step))
		} else if len(steps) > 0 {
			return steps
		}
	}
	t.Fatalf("%s/README.md has no block of commands with text after it", r.source())
	return nil
}

func (r recipe) source() string { return filepath.Join("..", "examples", r.folder) }

// files reads the program, without its text for people and what a developer has installed beside it.
func (r recipe) files(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(r.source()), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{".venv", "__pycache__", "target", "node_modules", "dist"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir(), entry.Name() == "README.md":
			return nil
		}
		files[path], err = os.ReadFile(filepath.Join(r.source(), path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
