import subprocess
import sys


def test_torchvision_is_importable_afterwards_by_anyone():
    code = (
        "import sim2cam.models.compat, torchvision, torchvision.ops as ops, torch;"
        "print(ops.box_iou(torch.tensor([[0., 0, 2, 2]]), torch.tensor([[0., 0, 2, 4]])).item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "0.5\n", done.stderr
