package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

const (
	bundlePiece       = 32 << 10         // bytes of the bundle in one message
	transferRetention = 10 * time.Minute // how long a bundle or an upload is kept, so that a caller can continue after a broken connection
)

// bundles are the bundles that callers are reading or have read lately.
type bundles struct {
	mu   sync.Mutex
	byID map[string]*bundle // by the agent's uid with the bundle's id, which the caller chooses
}

// bundle holds a bundle, a pack or a Git LFS file for its readers.
type bundle struct {
	lock chan struct{} // held while the bundle is created
	file *os.File      // nil until the bundle is created
	size int64

	readers int         // calls that create or send it; guarded by bundles.mu
	expiry  *time.Timer // removes the bundle; runs while there are no readers
}

// open returns the bundle with the id. If there is none, the returned bundle must still be created. It is kept until
// transferRetention after the last reader has called release.
func (b *bundles) open(id string) (_ *bundle, release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.byID[id]
	if entry == nil {
		entry = &bundle{lock: make(chan struct{}, 1)}
		b.byID[id] = entry
	}
	entry.readers++
	if entry.expiry != nil {
		entry.expiry.Stop()
	}
	return entry, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if entry.readers--; entry.readers == 0 {
			entry.expiry = time.AfterFunc(transferRetention, func() { b.expire(id, entry) })
		}
	}
}

// expire removes the bundle unless a caller has begun to read it in the meantime.
func (b *bundles) expire(id string, entry *bundle) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry.readers > 0 || b.byID[id] != entry {
		return
	}
	delete(b.byID, id)
	if entry.file != nil {
		_ = entry.file.Close()
	}
}

// create creates the content of the bundle with write, unless it exists. If the content does not exist although the caller has
// received a part of it (partlySent), create fails, because the new content could differ.
func (b *bundle) create(ctx context.Context, write func(context.Context, io.Writer) error, partlySent bool) error {
	select {
	case b.lock <- struct{}{}:
		defer func() { <-b.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.file != nil {
		return nil
	}
	if partlySent {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the runner of the agent was restarted while it sent a bundle: ask for the bundle again")
	}
	f, err := unlinkedFile()
	if err != nil {
		return err
	}
	if err = write(ctx, f); err == nil {
		b.size, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	b.file = f
	return nil
}

// unlinkedFile creates a file without a name, which disappears when the process ends.
func unlinkedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "fleet-transfer-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Bundle implements the service. It creates the complete bundle before sending it, so that a caller can continue at an
// offset.
func (s *Server) Bundle(ctx context.Context, req *connect.Request[runnerv1.BundleRequest], stream *connect.ServerStream[runnerv1.BundleResponse]) error {
	id, offset := req.Msg.GetBundleId(), req.Msg.GetOffset()
	r, err := s.runnerOf(req.Header(), req.Msg.GetAgent())
	if err != nil {
		return err
	}
	if id == "" || offset < 0 {
		return toFault(fleet.InvalidField("bundle_id", "bundle_id must not be empty, and offset not negative"))
	}
	heartbeat := &runnerv1.BundleResponse{Event: &runnerv1.BundleResponse_Heartbeat{Heartbeat: &runnerv1.Heartbeat{}}}
	response := startResponse(ctx, s, stream, heartbeat, 0)
	write := r.Bundle
	if m := req.Msg; m.GetCommit() != "" || m.GetLarge() != "" {
		write = func(ctx context.Context, out io.Writer) error {
			repo, err := s.repository(ctx, m.GetAgent(), nil)
			switch {
			case err != nil:
				return err
			case m.GetLarge() != "":
				return repo.WriteLFS(ctx, m.GetLarge(), out)
			}
			return repo.Pack(ctx, m.GetCommit(), m.GetHave(), m.GetWhole(), out)
		}
	}
	b, releaseBundle := s.bundles.open(req.Msg.GetAgent().GetUid() + "\x00" + id)
	defer releaseBundle()
	err = b.create(response.workCtx, write, offset > 0)
	response.end()
	if err != nil {
		return s.wireError(ctx, err)
	}
	buf := make([]byte, bundlePiece)
	for ; offset < b.size; offset += int64(len(buf)) {
		buf = buf[:min(bundlePiece, b.size-offset)]
		if _, err := b.file.ReadAt(buf, offset); err != nil {
			return s.wireError(ctx, err)
		}
		if err := response.send(&runnerv1.BundleResponse{Event: &runnerv1.BundleResponse_Data{Data: buf}}); err != nil {
			return err
		}
	}
	return response.send(&runnerv1.BundleResponse{Event: &runnerv1.BundleResponse_End{End: &runnerv1.BundleEnd{Size: b.size}}})
}

// errIncompleteBundle means that a runner sent a bundle whose size is not the announced one.
var errIncompleteBundle = errors.New("the bundle is shorter than announced")

// Bundle implements fleet.Runner.
func (w runner) Bundle(ctx context.Context, out io.Writer) error {
	return w.readBundle(ctx, &runnerv1.BundleRequest{}, out)
}

// readBundle reads the bundle, pack or Git LFS file that the request describes, and writes it to out. After a broken connection, it
// continues where the connection broke.
func (w runner) readBundle(ctx context.Context, req *runnerv1.BundleRequest, out io.Writer) error {
	req.Agent, req.BundleId = agentToProto(w.agent), rand.Text()
	var writeErr error
	err := callStream(ctx, w.client, w.agent, w.client.rpc.Bundle, req, func(m *runnerv1.BundleResponse) (done bool) {
		switch e := m.GetEvent().(type) {
		case *runnerv1.BundleResponse_Data:
			var n int
			n, writeErr = out.Write(e.Data)
			req.Offset += int64(n)
		case *runnerv1.BundleResponse_End:
			if done = true; e.End.GetSize() != req.GetOffset() {
				writeErr = fleet.Errorf(fleet.ReasonBackendUnavailable, "the bundle of the agent %q is incomplete: ask for it again", w.agent.Name).WithCause(errIncompleteBundle)
			}
		}
		return done || writeErr != nil
	})
	if writeErr != nil {
		return writeErr
	}
	return err
}
