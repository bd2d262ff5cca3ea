"""Commands as functions: ``commands.train("dice", data=["sim"], out="run")`` returns a result."""

from sim2cam.commands.ablate import Ablate
from sim2cam.commands.adapt import AdaptApply, AdaptTrain
from sim2cam.commands.assets import Assets, New
from sim2cam.commands.bench import Bench
from sim2cam.commands.calibrate import Calibrate, Drift
from sim2cam.commands.compare import Compare
from sim2cam.commands.data import Check, Inspect, Render
from sim2cam.commands.demo import Demo
from sim2cam.commands.domain import DomainFit, DomainShow
from sim2cam.commands.export import Catalog, Export
from sim2cam.commands.fetch import Fetch
from sim2cam.commands.predict import Predict
from sim2cam.commands.pseudo_label import PseudoLabel
from sim2cam.commands.recipe import Recipe
from sim2cam.commands.results import make_function
from sim2cam.commands.scenes import ScenesAdd, ScenesRun
from sim2cam.commands.show import Doctor, Report
from sim2cam.commands.train import Train
from sim2cam.commands.tune import Tune

demo = make_function(Demo)
domain_show = make_function(DomainShow)
domain_fit = make_function(DomainFit)
render = make_function(Render)
new = make_function(New)
assets = make_function(Assets)
check = make_function(Check)
inspect = make_function(Inspect)
export = make_function(Export)
catalog = make_function(Catalog)
calibrate = make_function(Calibrate)
drift = make_function(Drift)
adapt_train = make_function(AdaptTrain)
adapt_apply = make_function(AdaptApply)
train = make_function(Train)
tune = make_function(Tune)
bench = make_function(Bench)
compare = make_function(Compare)
ablate = make_function(Ablate)
predict = make_function(Predict)
pseudo_label = make_function(PseudoLabel)
scenes_add = make_function(ScenesAdd)
scenes_run = make_function(ScenesRun)
fetch = make_function(Fetch)
report = make_function(Report)
recipe = make_function(Recipe)
doctor = make_function(Doctor)
