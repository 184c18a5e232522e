package servers

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Broker is one broker of a cluster. A stopped or killed one may start again, on the same port with the same data.
type Broker struct {
	Node int    // its node id
	Addr string // host:port for clients

	dir, java, jars, heap string
	brief                 bool
	listeners             map[string]string // host:port by name

	mu      sync.Mutex
	process Process
}

// properties returns the settings of a broker in a cluster of n.
func (b *Broker) properties(n int, voters string, controllerPort int) map[string]string {
	replicas, inSync := min(n, 3), max(1, min(n, 3)-1)
	plain := "PLAINTEXT://" + b.Addr
	return map[string]string{
		"process.roles":                    "broker,controller",
		"node.id":                          fmt.Sprint(b.Node),
		"controller.quorum.voters":         voters,
		"listeners":                        fmt.Sprintf("%s,CONTROLLER://127.0.0.1:%d", plain, controllerPort),
		"advertised.listeners":             plain,
		"controller.listener.names":        "CONTROLLER",
		"listener.security.protocol.map":   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                         filepath.Join(b.dir, "data"),
		"auto.create.topics.enable":        "false",
		"default.replication.factor":       fmt.Sprint(replicas),
		"min.insync.replicas":              fmt.Sprint(inSync),
		"group.initial.rebalance.delay.ms": "0",

		"offsets.topic.replication.factor":                 fmt.Sprint(replicas),
		"offsets.topic.num.partitions":                     "4", // made at the first use of a group; the default is 50
		"transaction.state.log.replication.factor":         fmt.Sprint(replicas),
		"transaction.state.log.min.isr":                    fmt.Sprint(inSync),
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": fmt.Sprint(replicas),
		"share.coordinator.state.topic.min.isr":            fmt.Sprint(inSync),
		"share.coordinator.state.topic.num.partitions":     "4",
		"log.cleaner.dedupe.buffer.size":                   "16777216", // of the heap, taken at the start
	}
}

func (b *Broker) writeProperties(properties map[string]string) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", name, properties[name])
	}
	if err := os.WriteFile(filepath.Join(b.dir, "server.properties"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write settings of broker %d: %w", b.Node, err)
	}
	return nil
}

// program prepares one of the programs in Kafka's jars to run.
func (b *Broker) program(ctx context.Context, jvm []string, class string, args ...string) *exec.Cmd {
	java := []string{"-cp", filepath.Join(b.jars, "*"),
		"-Dlog4j2.configurationFile=" + filepath.Join(b.jars, "log4j2.properties")}
	cmd := exec.CommandContext(ctx, b.java, slices.Concat(java, jvm, []string{class}, args)...)
	cmd.Dir = b.dir
	return cmd
}

func (b *Broker) launch() error {
	// The collector and its goal are those of Kafka's own start script, whatever Java would choose for a small machine.
	jvm := []string{"-Xmx" + b.heap, "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
		"-XX:+ExplicitGCInvokesConcurrent"}
	if b.brief {
		jvm = append(jvm, "-XX:TieredStopAtLevel=1")
	}
	cmd := b.program(context.Background(), jvm, "kafka.Kafka", filepath.Join(b.dir, "server.properties"))
	process, err := start(cmd, b.dir)
	if err != nil {
		return fmt.Errorf("start broker %d: %w", b.Node, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.process = process
	return nil
}

func (b *Broker) noted() Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.process
}

// Pid returns the broker's process id, of the last start.
func (b *Broker) Pid() int { return b.noted().Pid }

// Alive tells whether the broker's process runs, or would if it was not paused.
func (b *Broker) Alive() bool { return b.noted().Alive() }

// Pause stops the broker's process where it stands (SIGSTOP): connections stay open and nobody answers on them.
func (b *Broker) Pause() error { return b.noted().Signal(syscall.SIGSTOP) }

// Resume lets a paused broker go on.
func (b *Broker) Resume() error { return b.noted().Signal(syscall.SIGCONT) }

// Kill ends the broker by SIGKILL and returns when it has gone.
func (b *Broker) Kill() error { return b.noted().End(context.Background(), syscall.SIGKILL) }

// Stop ends the broker in order; in a cluster it hands its partitions over first. When ctx is done before, it kills.
func (b *Broker) Stop(ctx context.Context) error { return b.noted().End(ctx, syscall.SIGTERM) }

// Restart stops the broker if it runs and starts it again. It returns when the process runs; Kafka.WaitReady waits
// until it is of use. It must not run concurrently with itself.
func (b *Broker) Restart(ctx context.Context) error {
	if err := b.Stop(ctx); err != nil {
		return fmt.Errorf("restart broker %d: %w", b.Node, err)
	}
	return b.launch()
}
