package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// TestHangupDuringStart sends SIGHUP to a server that reads its configuration, which is a pipe. The server must start, and then read the
// configuration again.
func TestHangupDuringStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, data := filepath.Join(dir, ConfigFile), filepath.Join(dir, "data")
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	openPipe := func() (w *os.File) {
		waittest.Until(t, "a pipe that is opened with O_NONBLOCK does not wait for its reader", func() (ok bool) {
			var err error
			w, err = os.OpenFile(file, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			return err == nil
		})
		return w
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // SIGHUP would end the tests
	defer signal.Stop(caught)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan string, 1)
	go func() {
		code, _, stderr := runCommand(ctx, []string{"FLEET_DATA=" + data, "FLEET_HTTP=127.0.0.1:0", "FLEET_GRPC=127.0.0.1:0", "FLEET_PLACES=fake"}, "serve", "--config", file)
		ended <- fmt.Sprint(code, stderr)
	}()
	w := openPipe()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	<-caught
	require.NoError(t, w.Close())
	waittest.Until(t, "a server does not signal that it has started", func() bool {
		h, _ := holderOf(data)
		return h.GRPC != ""
	})
	w = openPipe()
	_, err := w.WriteString("limits: {agents: 7}\n")
	require.NoError(t, errors.Join(err, w.Close()))
	stop()
	require.Regexp(t, `^0(?s:.*)configuration reloaded.*limits\.agents`, <-ended)
}

// TestHangup checks that SIGHUP reloads the configuration, and that it stops a server whose terminal was closed.
func TestHangup(t *testing.T) {
	t.Parallel()
	r := newReloadServer(t, reloadProjects+"  - name: shop\n")
	r.write(reloadProjects + "  - name: more\n")
	signals, gone := make(chan os.Signal, 2), make(chan bool, 2)
	ctx, stop := context.WithCancelCause(r.ctx)
	gone <- false
	gone <- true
	signals <- syscall.SIGHUP
	signals <- syscall.SIGHUP
	r.handleHangups(ctx, signals, func() bool { return <-gone }, stop)
	require.ErrorContains(t, context.Cause(ctx), "terminal")
	list, err := r.client.ListAgentProjects(r.ctx, &fleetv1.ListAgentProjectsRequest{})
	require.NoError(t, err)
	require.Equal(t, "more", list.GetProjects()[0].GetName())
}
