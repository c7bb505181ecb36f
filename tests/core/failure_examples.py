"""Of each rule a line that it matches, and one close by that it must leave alone."""

EXAMPLES = {
    "slurm_node_fail": ("NODE_FAIL", "FAILED"),
    "slurm_out_of_memory": ("OUT_OF_MEMORY", "COMPLETED"),
    "slurm_time_limit": ("TIMEOUT", "COMPLETING"),
    "slurm_preempted": ("PREEMPTED", "SUSPENDED"),
    "kubernetes_oom_killed": ("OOMKilled", "Error"),
    "node_disk_pressure": (
        "Pod The node had condition: [DiskPressure].",
        "the disk was under pressure of nobody",
    ),
    "node_memory_pressure": (
        "Pod The node had condition: [MemoryPressure].",
        "the memory was under pressure of nobody",
    ),
    "kubernetes_node": ("Evicted", "Completed"),
    "kubernetes_image": ("ImagePullBackOff", "ContainerCreating"),
    "step_time_limit": (
        "slurmstepd: error: *** STEP 8.1 ON n1 CANCELLED AT 2025-04-21T14:07 DUE TO TIME LIMIT ***",
        "the time limit of this job is 2:00:00",
    ),
    "step_preempted": (
        "slurmstepd: error: *** JOB 80 ON n1 CANCELLED AT 2025-04-21T14:07 DUE TO PREEMPTION ***",
        "preemption is enabled in this partition",
    ),
    "preemption_notice": (
        "Preempted to accommodate a workload due to prioritization in the ClusterQueue",
        "instances that will be created: 8 spot instances",
    ),
    "step_node_failure": ("srun: error: Node failure on n17", "node list: n[1-17]"),
    "xid_memory": (
        "NVRM: Xid (PCI:0000:3b:00): 94, pid=812, Contained ECC error",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus",
    ),
    "xid_application": (
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=812, MMU Fault",
        "NVRM: Xid (PCI:0000:3b:00): 131",
    ),
    "xid_hardware": (
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus",
        "NVRM: Xid (PCI:0000:3b:00): 45, Preemptive Channel Removal",
    ),
    "gpu_ecc": (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "ECC support is enabled",
    ),
    "gpu_lost": (
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.",
        "GPU 0 is busy with another process",
    ),
    "gpu_out_of_memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
        "torch.cuda.memory_reserved() is 20.00 GiB",
    ),
    "gpu_fault_of_kernel": (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    ),
    "host_out_of_memory": (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=80.0.",
        "free memory: 12 GiB",
    ),
    "shared_memory_full": (
        "Bus error in worker. It might be caused by insufficient shared memory (shm).",
        "using shared memory transport",
    ),
    "host_fault": (
        "mce: [Hardware Error]: Machine check events logged",
        "machine checked in at 09:00",
    ),
    "network_link": (
        "mlx5_core 0000:5e:00.0: mlx5_3: Link down",
        "linking downloads into the cache",
    ),
    "disk_full": ("OSError: [Errno 28] No space left on device", "No space between the words"),
    "disk_quota": (
        "OSError: [Errno 122] Disk quota exceeded: 'last.ckpt'",
        "quota of the partition: 8 nodes",
    ),
    "storage_fault": (
        "OSError: [Errno 5] Input/output error: '/data/shard-0007'",
        "reading input of 8 files",
    ),
    "silent_corruption": (
        "silent data corruption: parameters differ across replicas",
        "checksum of the download differs",
    ),
    "not_a_number": (
        "FloatingPointError: loss is nan at step 1200",
        "loss is 2.31, nan_to_num off",
    ),
    "import_error": ("ModuleNotFoundError: No module named 'apex'", "imported 12 modules"),
    "version_mismatch": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "AttributeError: module 'train' has no attribute 'main'",
    ),
    "download_failed": (
        "requests.exceptions.ConnectionError: Max retries exceeded with url: /tokenizer.json",
        "download finished, no retries",
    ),
    "data_worker": (
        "RuntimeError: DataLoader worker (pid 812) exited unexpectedly with exit code 1.",
        "DataLoader uses 8 workers",
    ),
    "bad_data": (
        "PIL.UnidentifiedImageError: cannot identify image file 'n0144.jpg'",
        "decoded 120 images",
    ),
    "programming_error": (
        "ValueError: expected 4 dimensions, got 3",
        "RuntimeError: Connection reset by peer",
    ),
    "native_crash_text": (
        "traceback : Signal 11 (SIGSEGV) received by PID 6421",
        "traceback : Signal 9 (SIGKILL) received by PID 6421",
    ),
    "native_crash": ("139", "137"),
    "killed_first": (
        "killed from outside, the first of its node to die",
        "the first of its node to finish",
    ),
    "fabric_error": (
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.7 with status=12",
        "NET/IB : Using [0]mlx5_0:1/IB",
    ),
    "collective_timeout": (
        "Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)",
        "the software watchdog is enabled",
    ),
    "peer_gone": (
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:4312",
        "peer discovery finished, connection to 8 peers",
    ),
    "collective_failed": (
        "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.",
        "NCCL version 2.27.3+cuda12.9",
    ),
    "connection_lost": (
        "The client socket has timed out after 60s while trying to connect to 10.0.0.7:29500",
        "connection to the store is up",
    ),
    "launcher_summary": (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED",
        "rendezvous complete on 8 nodes",
    ),
    "gpu_library_failed": (
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "cuDNN version 9.5.1, CUDNN_STATUS_SUCCESS",
    ),
    "uncaught_exception": (
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "training on 8 ranks",
    ),
    "aborted": ("134", "137"),
    "killed": ("137", "143"),
    "exit_1": ("1", "0"),
    "command_not_run": ("127", "128"),
    "slurm_cancelled": ("CANCELLED by 1000", "COMPLETED"),
    "interrupted": ("130", "137"),
    "terminated": ("143", "134"),
}
