package remote

import (
	"context"
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

// uploads are the packs and files that callers are sending.
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
		return errRestarted()
	}
	n, err := u.file.WriteAt(data, offset)
	if err == nil {
		u.size += int64(n)
	}
	return err
}

// errRestarted is the error for a part of an upload whose beginning the runner has lost.
func errRestarted() error {
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
		err = errRestarted()
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
			err = errRestarted()
		}
		return collected.Found, err
	}
	defer s.uploads.drop(id)
	up.mu.Lock()
	defer up.mu.Unlock()
	in := io.NewSectionReader(up.file, 0, up.size)
	if digest := request.GetLarge(); digest != "" {
		return r.AddLFS(ctx, digest, in)
	}
	return r.Unpack(ctx, request.GetCommit(), in)
}
