//go:build unix && !linux

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// startTime returns when a process started, to the second, as ps(1) tells it.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		return "", os.ErrProcessDone // ps found no such process
	}
	state, started, ok := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !ok || strings.HasPrefix(state, "Z") {
		return "", os.ErrProcessDone
	}
	return strings.TrimSpace(started), nil
}
