package remote

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// maxUpload limits the size of an upload, in bytes.
const maxUpload = 2 << 30

// uploads are the packs, bundles and files that callers are sending.
type uploads struct {
	mu   sync.Mutex
	byID map[string]*upload // by the agent's uid with the upload's id, which the caller chooses
}

// upload is a pack, a bundle or a file that a caller sends. It is kept until unpack has used it, or until nothing was sent for the
// duration transferRetention.
type upload struct {
	mu     sync.Mutex // held while the file is written or read
	file   *os.File
	size   int64
	expiry *time.Timer
}

// open returns the upload with the id. If there is none, it creates one if create is set, and otherwise returns nil.
func (u *uploads) open(id string, create bool) (*upload, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.byID[id]
	if up == nil && create {
		f, err := unlinkedFile()
		if err != nil {
			return nil, err
		}
		up = &upload{file: f, expiry: time.AfterFunc(transferRetention, func() { u.drop(id) })}
		if u.byID == nil {
			u.byID = map[string]*upload{}
		}
		u.byID[id] = up
	}
	if up != nil {
		up.expiry.Reset(transferRetention)
	}
	return up, nil
}

// drop removes the upload. If the upload is in use, drop tries again after transferRetention.
func (u *uploads) drop(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.byID[id]
	switch {
	case up == nil:
	case !up.mu.TryLock():
		up.expiry.Reset(transferRetention)
	default:
		defer up.mu.Unlock()
		up.expiry.Stop()
		_ = up.file.Close()
		delete(u.byID, id)
	}
}

// write writes the part at the offset. A part that was written before is ignored.
func (u *upload) write(offset int64, data []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch end := offset + int64(len(data)); {
	case offset < 0 || end > maxUpload:
		return fleet.Errorf(fleet.ReasonLimitReached, "the work is more than %d bytes: push it from its workspace", maxUpload)
	case end <= u.size:
		return nil
	case offset != u.size:
		return restartedError()
	}
	n, err := u.file.WriteAt(data, offset)
	if err == nil {
		u.size += int64(n)
	}
	return err
}

// restartedError returns the error for a part of an upload whose beginning the runner has lost.
func restartedError() error {
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "the runner of the agent was restarted while it received work: try again")
}

// Upload implements the service.
func (s *Server) Upload(ctx context.Context, req *connect.Request[runnerv1.UploadRequest]) (*connect.Response[runnerv1.UploadResponse], error) {
	m := req.Msg
	if _, err := s.runnerOf(req.Header(), m.GetAgent()); err != nil {
		return nil, err
	}
	if m.GetUploadId() == "" {
		return nil, toFault(fleet.InvalidField("upload_id", "upload_id must not be empty"))
	}
	up, err := s.uploads.open(m.GetAgent().GetUid()+"\x00"+m.GetUploadId(), m.GetOffset() == 0)
	switch {
	case err != nil:
	case up == nil:
		err = restartedError()
	default:
		err = up.write(m.GetOffset(), m.GetData())
	}
	return reply(ctx, s, &runnerv1.UploadResponse{}, err)
}

// unpack adds the content of the upload with the id to the repository. There may be no such upload, for example because an earlier
// attempt of the call has used it. Then unpack fails unless the repository already has the commit.
func (s *Server) unpack(ctx context.Context, r Repository, id string, request *runnerv1.Unpack) (found bool, err error) {
	up, err := s.uploads.open(id, false)
	if err != nil {
		return false, err
	}
	if up == nil {
		collected := CollectResult{}
		if request.GetLarge() == "" {
			collected, err = r.Collect(ctx, request.GetCommit())
		}
		if err == nil && !collected.Found {
			err = restartedError()
		}
		return collected.Found, err
	}
	defer func() {
		if ctx.Err() == nil { // the caller, who has its answer, does not repeat the call
			s.uploads.drop(id)
		}
	}()
	up.mu.Lock()
	defer up.mu.Unlock()
	in := io.NewSectionReader(up.file, 0, up.size)
	if digest := request.GetLarge(); digest != "" {
		return r.AddLFS(ctx, digest, in)
	}
	return r.Unpack(ctx, request.GetCommit(), in)
}

const (
	uploadPiece   = 4 << 20         // maximum size of the data in one request of an upload, in bytes
	uploadTimeout = 2 * time.Minute // how long such a request may take
)

// Unpack implements Repository.
func (r repository) Unpack(ctx context.Context, commit string, in io.Reader) (found bool, err error) {
	return r.upload(ctx, &runnerv1.Unpack{Commit: commit}, in)
}

// AddLFS implements Repository.
func (r repository) AddLFS(ctx context.Context, digest string, in io.Reader) (ok bool, err error) {
	return r.upload(ctx, &runnerv1.Unpack{Large: digest}, in)
}

// upload sends the data to the runner, and then asks the runner to add it to the repository. found is the runner's answer.
func (r repository) upload(ctx context.Context, unpack *runnerv1.Unpack, in io.Reader) (found bool, err error) {
	if err := r.client.CheckLanding(ctx, r.agent); err != nil {
		return false, err
	}
	unpack.UploadId = rand.Text()
	m := &runnerv1.UploadRequest{Agent: agentToProto(r.agent), UploadId: unpack.UploadId}
	buf := make([]byte, uploadPiece)
	for {
		n, err := io.ReadFull(in, buf)
		if n > 0 || m.GetOffset() == 0 {
			m.Data = buf[:n]
			if err := r.client.callWithRetry(ctx, r.agent, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeoutCause(ctx, uploadTimeout, errRetry)
				defer cancel()
				_, err := r.client.rpc.Upload(ctx, connect.NewRequest(m))
				return err
			}); err != nil {
				return false, err
			}
			m.Offset += int64(n)
		}
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF: // ReadFull does not wrap them
			response, err := r.integrate(ctx, &runnerv1.IntegrateRequest{Call: &runnerv1.IntegrateRequest_Unpack{Unpack: unpack}})
			return response.GetCollected().GetFound(), err
		case err != nil:
			return false, err
		}
	}
}
