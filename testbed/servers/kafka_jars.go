package servers

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

//go:embed pom.xml
var pom []byte

//go:embed log4j2.properties
var logging []byte

// KafkaJars returns the folder with Apache Kafka's jars and their dependencies, fetched by Maven the first time.
func KafkaJars(ctx context.Context) (string, error) {
	name := fmt.Sprintf("kafka-%.4x", sha256.Sum256(append(pom[:len(pom):len(pom)], logging...)))
	return Cached(ctx, name, func(dir string) error {
		mvn, err := exec.LookPath("mvn")
		if err != nil {
			return errors.New("fetch Kafka's jars: no mvn in PATH; " +
				"install Apache Maven (Debian: apt-get install maven)")
		}
		scratch, err := os.MkdirTemp("", "posthaste-kafka-")
		if err != nil {
			return fmt.Errorf("fetch Kafka's jars: %w", err)
		}
		defer os.RemoveAll(scratch)
		if err := os.WriteFile(filepath.Join(scratch, "pom.xml"), pom, 0o644); err != nil {
			return fmt.Errorf("fetch Kafka's jars: %w", err)
		}
		cmd := exec.CommandContext(ctx, mvn, "--quiet", "--batch-mode", "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+dir)
		cmd.Dir = scratch
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("fetch Kafka's jars: mvn: %w:\n%s", err, out)
		}
		if err := os.WriteFile(filepath.Join(dir, "log4j2.properties"), logging, 0o644); err != nil {
			return fmt.Errorf("fetch Kafka's jars: %w", err)
		}
		return nil
	})
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// java returns the path of a Java that runs Kafka 4.
func java(ctx context.Context) (string, error) {
	const wayOut = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"
	path, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New("find java: none in PATH; " + wayOut)
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run java -version: %w: %s; %s", err, out, wayOut)
	}
	if m := javaVersion.FindSubmatch(out); m != nil {
		if major, err := strconv.Atoi(string(m[1])); err == nil && major < 17 {
			return "", fmt.Errorf("find java: %s is version %d; %s", path, major, wayOut)
		}
	}
	return path, nil
}
