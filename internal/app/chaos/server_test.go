package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/loopback/loopbacktest"
	"fleet/internal/store/postgres/pgtest"
)

// server is a process that serves a fleet at fixed addresses. It can be killed and started again.
type server struct {
	t          *testing.T
	name       string
	http, grpc string
	data       string
	store      string // the URL of its store; "" for SQLite
	shared     string // the socket of the shared place; "" for none
	repository string // the repository of the project "repo"; "" if the server does not have the project
	// definitions is the directory with the definitions of agents on models, which are then the fleet's projects.
	definitions string
	limits      fleet.Limits
	links       [2]*pgtest.Link // to the nodes of the database, by address
	conn        *grpc.ClientConn
	log         *os.File

	mu              sync.Mutex
	cmd             *exec.Cmd
	ended           chan struct{} // closed when cmd has ended
	restartDisabled bool          // set when the test ends cmd on purpose
}

// newServer returns a server with free addresses. The caller must start it.
func newServer(t *testing.T, name, data string) *server {
	s := &server{t: t, name: name, http: loopbacktest.Address(t), grpc: loopbacktest.Address(t), data: data, limits: fleet.Limits{Agents: 1000, RunningTasks: 1000}}
	var err error
	s.conn, err = grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second,
	}))
	require.NoError(t, err)
	logs := os.Getenv("CHAOS_LOGS")
	if logs == "" {
		logs = t.TempDir()
	}
	s.log, err = os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Kill()
		_ = s.conn.Close()
		_ = s.log.Close()
	})
	return s
}

// tail returns the last n bytes of the file, or "" if it cannot be read.
func tail(path string, n int64) string {
	b, _ := os.ReadFile(path)
	return string(b[max(0, int64(len(b))-n):])
}

// failedCallPattern matches a line of the server's log about a call that failed with an internal error.
var failedCallPattern = regexp.MustCompile(`(?m)^time=\S+ level=ERROR msg=call method=(\S+) .* code=\w+ error=(.*)$`)

// crashPattern matches the first line that the runtime writes when a process crashes, or when the race detector finds a race.
var crashPattern = regexp.MustCompile(`(?m)^(?:panic: |fatal error: |WARNING: DATA RACE).*$`)

// internalErrors describes each crash and each internal error in the server's log: how many calls failed with it, and the method of
// the first such call.
func (s *server) internalErrors() []string {
	content, err := os.ReadFile(s.log.Name())
	if err != nil {
		return []string{err.Error()}
	}
	counts, methods := map[string]int{}, map[string]string{}
	for _, m := range failedCallPattern.FindAllStringSubmatch(string(content), -1) {
		counts[m[2]]++
		methods[m[2]] = cmp.Or(methods[m[2]], m[1])
	}
	var all []string
	for _, line := range crashPattern.FindAll(content, -1) {
		all = append(all, fmt.Sprintf("%s has crashed: %s", s.name, line))
	}
	for _, e := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d calls of %s, the first of %s, failed with the internal error %s", counts[e], s.name, methods[e], e))
	}
	return all
}

// Start starts the process with a clock that is wrong by skew. If the process ends by itself, it is started again with the same skew.
func (s *server) Start(skew time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start(skew)
}

func (s *server) start(skew time.Duration) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", dataEnv+"="+s.data, storeEnv+"="+s.store, replicaEnv+"="+s.name,
		agentsEnv+"="+strconv.Itoa(s.limits.Agents), tasksEnv+"="+strconv.Itoa(s.limits.RunningTasks),
		httpEnv+"="+s.http, grpcEnv+"="+s.grpc, sharedEnv+"="+s.shared, repoEnv+"="+s.repository, definitionsEnv+"="+s.definitions, "ANTHROPIC_API_KEY=sk-stub", clockEnv+"="+skew.String())
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.cmd, s.ended, s.restartDisabled = cmd, ended, false
	go func() {
		_ = cmd.Wait()
		close(ended)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.restartDisabled && s.cmd == cmd { // the database did not answer when the process started; a service manager would restart it too
			time.AfterFunc(100*time.Millisecond, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if !s.restartDisabled && s.cmd == cmd {
					if err := s.start(skew); err != nil {
						s.t.Error(err)
					}
				}
			})
		}
	}()
	return nil
}

// disableRestart prevents automatic restarts of the process, and returns the process. ended is closed after the process has ended.
// cmd is nil if no process was started.
func (s *server) disableRestart() (cmd *exec.Cmd, ended <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restartDisabled = true
	return s.cmd, s.ended
}

// startServing starts the process, and waits until it answers calls.
func (s *server) startServing(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Start(0))
	s.requireServing(t)
}

// requireServing waits until the server answers calls.
func (s *server) requireServing(t *testing.T) {
	t.Helper()
	_, err := s.awaitServing(operationTimeout)
	require.NoError(t, err, tail(s.log.Name(), 4<<10))
}

// Kill ends the process at once.
func (s *server) Kill() {
	if cmd, ended := s.disableRestart(); cmd != nil {
		_ = cmd.Process.Kill()
		<-ended
	}
}

// killAndRestart kills the process, starts another one, and waits until the new one answers calls. Without the wait, a test that kills the
// server again and again would never let it serve on a slow machine.
func (s *server) killAndRestart() error {
	s.Kill()
	if err := s.Start(0); err != nil {
		return err
	}
	_, err := s.awaitServing(operationTimeout)
	return err
}

// Stop asks the process to end, as a service manager does, and waits for that.
func (s *server) Stop() error {
	cmd, ended := s.disableRestart()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
		return nil
	case <-time.After(operationTimeout):
		return fmt.Errorf("%s has not ended %s after SIGTERM", s.name, operationTimeout)
	}
}

// Signal sends the process a signal.
func (s *server) Signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Signal(sig)
}

// awaitServing waits until the server answers calls, and returns how long that took. It fails if that takes longer than limit.
func (s *server) awaitServing(limit time.Duration) (time.Duration, error) {
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		err := overGRPC(ctx, s, "ListAgents", &fleetv1.ListAgentsRequest{Limit: new(int32(1))}, &fleetv1.ListAgentsResponse{})
		cancel()
		if err == nil {
			return time.Since(began), nil
		}
		if time.Since(began) > limit {
			return time.Since(began), fmt.Errorf("%s does not serve after %s: %w", s.name, limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
