package driver

import (
	"encoding/json"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/price"
)

// Cagent is the name of the driver of agents on models. Their definitions have the format of docker/cagent. NewModel makes the
// driver.
const Cagent = "cagent"

// ModelJob is the input of the program that runs one agent on its model (see package model/run).
type ModelJob struct {
	UID        string             `json:"uid"` // of the agent
	Config     *fleet.AgentConfig `json:"config"`
	Spec       string             `json:"spec,omitempty"`
	TaskID     string             `json:"task_id"`
	Brief      string             `json:"brief,omitempty"`
	Options    fleet.TaskOptions  `json:"options,omitzero"`
	WorkDir    string             `json:"work"`             // the agent's working directory
	NoSymlinks bool               `json:"plain,omitempty"`  // the path of WorkDir must not contain symbolic links
	StateDir   string             `json:"state"`            // directory of the agent's conversation and todos
	MemoryDir  string             `json:"memory"`           // directory of the agent's memories
	SkillsHome string             `json:"skills,omitempty"` // home of the server's user, if the definition uses the user's skills

	Settings ModelSettings `json:"settings"`
}

// ModelSettings are the settings of all agents on models.
type ModelSettings struct {
	// Model is the model, as provider/model, for agents whose configuration and document name no model. If it is empty,
	// such agents use a model of the first provider whose key is in the environment.
	Model string
	// ApprovedTypes are the types of toolsets whose tools run without permission; nil: definition.DefaultApprovedTypes.
	ApprovedTypes []string
	// NoPrograms refuses definitions that run programs on this machine.
	NoPrograms bool
	// ToolEnv names the environment variables that registered tools may use in their headers and environments.
	ToolEnv []string
	// Prices are the prices of models. A run keeps the prices that it began with.
	Prices *price.List

	ToolTimeout   time.Duration // limits one tool call, and the start of a toolset; 0: 5 min
	MaxToolOutput int           // limits the result of a tool that is sent to the model, in bytes; 0: 256 KiB
	MaxOutput     int64         // the size of output at which a run is ended, in bytes; 0: 32 MiB
	MaxRequests   int           // limits the requests of a run to its model; 0: 500
}

// ModelNeeds lists what a run of an agent on a model needs on its machine. Package model/definition determines it.
type ModelNeeds struct {
	ProgramSource string       // the part of the definition or configuration that starts programs, described for people; empty if no part does
	Programs      []string     // the programs that it starts
	UsesMachine   bool         // the run uses files, programs or code of the machine
	SkillDirs     []string     // directories that the run reads, relative to the home of the server's user
	Variables     []string     // names of the environment variables that the run may read, including the keys of models
	Models        []string     // the models that the definition names
	Agents        []fleet.Role // the agents of the definition
}

// AllowanceVariable is the name of the environment variable with the path of AllowanceFile.
const AllowanceVariable = "FLEET_ALLOWANCE_FILE"

// modelFile is the name of the file in a run's directory that the program reads as its standard input.
const modelFile = "model.json"

// modelDriver is the driver of agents on models.
type modelDriver struct {
	command   []string
	job       ModelJob
	variables []string
}

// NewModel returns a driver that runs the command for the agent of job. The job has no task yet. variables are the names of
// the environment variables that the agent's definition may use, including the keys of models.
func NewModel(command []string, job ModelJob, variables []string) Driver {
	return modelDriver{command, job, variables}
}

func (m modelDriver) Program() string { return m.command[0] }

func (m modelDriver) Keys() []string { return m.variables }

func (m modelDriver) Command(j Job) (Command, error) {
	job := m.job
	job.TaskID, job.Brief, job.Options = j.TaskID, j.Brief, j.Options
	data, err := json.Marshal(job)
	if err != nil {
		return Command{}, err
	}
	return Command{
		Argv: slices.Clone(m.command), SplitStderr: true, StdinFile: modelFile, EndsOnSIGTERM: true,
		Files:  []File{{Name: modelFile, Data: string(data), Secret: true}}, // the headers of tools may hold secrets
		Env:    map[string]string{AllowanceVariable: j.path(AllowanceFile)},
		Format: Format{Kind: "model"},
	}, nil
}
