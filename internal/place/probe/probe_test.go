package probe_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/probe"
)

// writePrograms creates executable scripts in a new directory. It returns the directory, and a Prober with the directory in its PATH and
// a key in its environment.
func writePrograms(t *testing.T, scripts map[string]string) (p *probe.Prober, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, script := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+script+"\n"), 0o755))
	}
	return probe.New(probe.Config{Environ: []string{"PATH=relative:" + dir + ":/usr/bin:/bin", "HOME=" + dir, "ANTHROPIC_API_KEY=sk-secret-value"}}), dir
}

func TestVersion(t *testing.T) {
	t.Parallel()
	p, dir := writePrograms(t, map[string]string{
		"good":    `echo "good $1 1.2.3"`,
		"stderr":  `echo "9.9" >&2`,
		"broken":  `echo "library missing"; exit 3`,
		"killed":  `kill -TERM $$`,
		"environ": `env`,
		"stdin":   `read -r line; echo "read: [$line]"`,
		"loud":    `head -c 10000000 /dev/zero | tr '\0' x`,
		"plain":   "",
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), []byte("no program"), 0o644))
	for _, c := range []struct {
		program, output, err string
	}{
		{"good", "good --version 1.2.3\n", ""},
		{"stderr", "9.9\n", ""},
		{"broken", "library missing\n", "broken --version ended with exit code 3"},
		{"killed", "", "killed --version ended by a signal"},
		{"stdin", "read: []\n", ""},
		{"plain", "", ""},
		{filepath.Join(dir, "good"), "good --version 1.2.3\n", ""},
	} {
		path, output, err := p.Version(t.Context(), c.program)
		require.Equal(t, filepath.Join(dir, filepath.Base(c.program)), path)
		require.Equal(t, c.output, output, c.program)
		if c.err == "" {
			require.NoError(t, err, c.program)
		} else {
			require.EqualError(t, err, c.err)
		}
	}
	for _, program := range []string{"nothing", "data", "./good", "../good", filepath.Join(dir, "nothing")} {
		_, _, err := p.Version(t.Context(), program)
		require.ErrorIs(t, err, exec.ErrNotFound, program)
	}
	_, output, err := p.Version(t.Context(), "environ")
	require.NoError(t, err)
	require.Contains(t, output, "HOME="+dir)
	require.NotContains(t, output, "sk-secret-value", "the environment of a program that prints its version must not have a key")
	_, output, err = p.Version(t.Context(), "loud")
	require.NoError(t, err)
	require.Len(t, output, 4096)
}

// TestVersionKillsChildren checks that Version kills a program when its context is cancelled, and children that outlive their
// program and hold the output open.
func TestVersionKillsChildren(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"hangs":          `cat fifo`,
		"ignores":        `trap "" TERM INT; while :; do cat fifo; done`,
		"leaves a child": `cat fifo & echo $!; exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			pids := filepath.Join(t.TempDir(), "pids")
			require.NoError(t, syscall.Mkfifo(pids, 0o600))
			script := strings.ReplaceAll(script, "fifo", fifo)
			p, _ := writePrograms(t, map[string]string{"program": "exec 9>" + pids + "; echo $$ >&9\n" + script})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			started := make(chan int, 1)
			go func() {
				f, err := os.Open(pids)
				if err != nil {
					return
				}
				defer f.Close()
				line, _ := bufio.NewReader(f).ReadString('\n')
				pid, _ := strconv.Atoi(strings.TrimSpace(line))
				started <- pid
				_, _ = bufio.NewReader(f).ReadString(0) // until all processes of the group have closed the pipe
				close(started)
			}()
			ended := make(chan error, 1)
			go func() { _, _, err := p.Version(ctx, "program"); ended <- err }()
			pid := <-started
			require.NotZero(t, pid)
			if name != "leaves a child" {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
			} else {
				require.NoError(t, <-ended)
			}
			_, open := <-started // all processes of the group have ended
			require.False(t, open)
		})
	}
}

// TestVersionOfDaemon checks that Version returns although a child has left the process group and holds the output
// open.
func TestVersionOfDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, fifo := range []string{"left", "hold"} {
		require.NoError(t, syscall.Mkfifo(filepath.Join(dir, fifo), 0o600))
	}
	p, _ := writePrograms(t, map[string]string{"program": "cd " + dir + "; setsid bash -c 'echo $PPID >left; exec cat hold' & read -r pid <left; echo $pid"})
	type version struct {
		output string
		err    error
	}
	got := make(chan version, 1)
	go func() { _, output, err := p.Version(t.Context(), "program"); got <- version{output, err} }()
	hold, err := os.OpenFile(filepath.Join(dir, "hold"), os.O_WRONLY, 0) // returns when the child reads
	require.NoError(t, err)
	defer hold.Close() // ends the child
	v := <-got
	require.NoError(t, v.err)
	require.Regexp(t, `^\d+\n$`, v.output)
}

func TestGet(t *testing.T) {
	t.Parallel()
	p := probe.New(probe.Config{})
	var keys []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed and the key was sent") }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("X-Api-Key"))
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, 3<<20))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("short"))
		case "/denied":
			http.Error(w, "no", http.StatusUnauthorized)
		default:
			fmt.Fprint(w, `{"data":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		path   string
		status int
		size   int
	}{{"/", 200, 11}, {"/redirect", 302, 0}, {"/large", 200, 1 << 20}, {"/denied", 401, 3}} {
		status, body, err := p.Get(t.Context(), server.URL+c.path, map[string]string{"X-Api-Key": "k"})
		require.NoError(t, err, c.path)
		require.Equal(t, c.status, status, c.path)
		if c.size > 0 {
			require.Len(t, body, c.size, c.path)
		}
	}
	require.Equal(t, []string{"k", "k", "k", "k"}, keys)
	_, _, err := p.Get(t.Context(), server.URL+"/cut", nil)
	require.EqualError(t, err, "the connection was closed before an answer")
}

// TestGetErrors checks the errors for broken servers. They must give the reason, and must not contain the key.
func TestGetErrors(t *testing.T) {
	t.Parallel()
	listen := func(answer func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); answer(c) }()
			}
		}()
		return "http://" + l.Addr().String()
	}
	closed := listen(func(net.Conn) {})
	garbage := listen(func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = c.Write([]byte("SSH-2.0-garbage\r\n\x00\xff\r\n"))
	})
	reached := make(chan struct{}, 1)
	hang := listen(func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		reached <- struct{}{}
		<-t.Context().Done()
	})
	const unusedURL = "http://127.0.0.1:1" // nothing listens there, because programs get this port only if they request it
	p := probe.New(probe.Config{})
	for url, want := range map[string]string{
		garbage:   "the server does not speak HTTP",
		unusedURL: "no connection: connection refused",
		strings.Replace(closed, "http://", "https://", 1): "the connection ",
		"http://name.invalid":                             "host",
		"http://\x7f":                                     "invalid address",
	} {
		_, _, err := p.Get(t.Context(), url, map[string]string{"Authorization": "Bearer sk-secret-value"})
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "secret")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	_, _, err := p.Get(ctx, hang, nil)
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, _, err = p.Get(ctx, hang, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
