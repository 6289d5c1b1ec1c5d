package wire_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/admission"
	"fleet/internal/face/wire"
	"fleet/internal/fleet"
)

func TestWriteError(t *testing.T) {
	t.Parallel()
	e := fleet.Errorf(fleet.ReasonLimitReached, "too many requests")
	e.RetryAfter = 1500 * time.Millisecond
	w := httptest.NewRecorder()
	wire.WriteError(w, admission.Error(e))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "2", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"LIMIT_REACHED"`)
}
