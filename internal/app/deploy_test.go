package app

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// deployment is the directory, relative to the repository, with the files that docs/operate/deploy.md describes.
const deployment = "docs/operate/deploy"

// TestDeployedSettings checks that every variable in the deployment files is a setting.
func TestDeployedSettings(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"FLEET_CONFIG": true}
	for _, s := range settings(&Config{}) {
		known[s.env()] = true
	}
	variable := regexp.MustCompile(`\bFLEET_[A-Z_]+[A-Z]\b`)
	found := 0
	for _, path := range []string{"fleet.service", "Containerfile", "kubernetes/statefulset.yaml"} {
		for _, name := range variable.FindAllString(readRepository(t, deployment+"/"+path), -1) {
			require.True(t, known[name], "%s sets %s, which is not a setting", path, name)
			found++
		}
	}
	require.Greater(t, found, 5)
}

// TestDeployedPods checks that the configuration of the pods is valid, and that their ports and probes match a server
// with this configuration.
func TestDeployedPods(t *testing.T) {
	t.Parallel()
	c, err := Load(filepath.Join(repository, deployment, "kubernetes/fleet.yaml"), []string{"FLEET_STORE=postgres://fleet@db.example.com/fleet"}, nil)
	require.NoError(t, err)
	require.NoError(t, c.Validate())

	type probe struct {
		HTTPGet struct{ Path, Port, Scheme string } `yaml:"httpGet"`
	}
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Args  []string
						Env   []struct{ Name, Value string }
						Ports []struct {
							Name          string
							ContainerPort int `yaml:"containerPort"`
						}
						StartupProbe   probe `yaml:"startupProbe"`
						LivenessProbe  probe `yaml:"livenessProbe"`
						ReadinessProbe probe `yaml:"readinessProbe"`
						VolumeMounts   []struct {
							MountPath string `yaml:"mountPath"`
						} `yaml:"volumeMounts"`
					}
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(readRepository(t, deployment+"/kubernetes/statefulset.yaml")), &d))
	require.Len(t, d.Spec.Template.Spec.Containers, 1)
	pod := d.Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"serve"}, pod.Args)
	ports := map[string]string{}
	for _, p := range pod.Ports {
		ports[p.Name] = ":" + strconv.Itoa(p.ContainerPort)
	}
	peer := ""
	for _, e := range pod.Env {
		if e.Name == "FLEET_PEER" {
			for _, ip := range []string{"10.0.0.5", "fd00::5"} {
				host, port, err := net.SplitHostPort(strings.Replace(e.Value, "$(POD_IP)", ip, 1))
				require.NoError(t, err)
				require.Equal(t, ip, host)
				peer = ":" + port
			}
		}
	}
	require.Equal(t, map[string]string{"http": c.HTTP, "grpc": c.GRPC, "metrics": c.Metrics, "peer": peer}, ports)

	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	for _, p := range []probe{pod.StartupProbe, pod.LivenessProbe, pod.ReadinessProbe} {
		require.Equal(t, "http", p.HTTPGet.Port)
		require.Equal(t, "HTTPS", p.HTTPGet.Scheme, "probes must use HTTPS, since the configuration has a certificate")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url(p.HTTPGet.Path), nil)
		require.NoError(t, err)
		r.Host = "10.1.2.3:8101" // a kubelet uses the address of the pod as the host, and sends no token
		answer, err := f.http.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, p.HTTPGet.Path)
	}
	var mountPaths []string
	for _, m := range pod.VolumeMounts {
		mountPaths = append(mountPaths, m.MountPath)
	}
	require.Contains(t, mountPaths, filepath.Dir(c.TLS.Cert))
	data := regexp.MustCompile(`FLEET_DATA=(\S+)`).FindStringSubmatch(readRepository(t, deployment+"/Containerfile"))
	require.Len(t, data, 2)
	require.Contains(t, mountPaths, filepath.Dir(data[1]), "all users may enter the volume, so the data directory must be a directory in it")
	require.Contains(t, readRepository(t, deployment+"/kubernetes/statefulset.yaml"), "/etc/fleet/config/fleet.yaml")
}

// TestDeployedUnit checks the unit of systemd with systemd-analyze, if that is installed.
func TestDeployedUnit(t *testing.T) {
	t.Parallel()
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// The path of the program is replaced by the path of a program that exists here.
	dir := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	unit := bytes.ReplaceAll([]byte(readRepository(t, deployment+"/fleet.service")), []byte("/usr/local/bin/fleet"), []byte(program))
	path := filepath.Join(dir, "fleet.service")
	require.NoError(t, os.WriteFile(path, unit, 0o600))
	out, err := exec.CommandContext(t.Context(), verify, "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for line := range strings.Lines(string(out)) { // systemd-analyze also reports problems of other units
		require.NotContains(t, line, "fleet.service")
	}
}
